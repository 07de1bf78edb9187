package semaphore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two calls bring the same leave: the second confirmation does not make the hub forget
// to send it once more.
func TestLeaveThatIsConfirmedTwiceIsStillSentOnceMore(t *testing.T) {
	h := &hub{wake: make(chan struct{}, 1)}
	l := newLeaver(&waiter{again: time.Now().Add(time.Hour)})
	h.leaving = []*leaver{l}
	h.left([]*leaver{l})
	h.left([]*leaver{l})
	require.Equal(t, []*leaver{l}, h.leaving)
	l.due = time.Now()
	h.left([]*leaver{l})
	require.Empty(t, h.leaving)
}
