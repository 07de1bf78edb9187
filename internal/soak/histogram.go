package main

import (
	"math"
	"time"
)

// histogram counts durations in buckets that are a tenth wide.
type histogram struct {
	buckets [300]int
	count   int
	longest time.Duration
}

const bucketWidth = 1.1

// add says whether it is the longest so far.
func (h *histogram) add(d time.Duration) bool {
	i := 0
	if d > time.Microsecond {
		i = int(math.Log(float64(d)/float64(time.Microsecond)) / math.Log(bucketWidth))
	}
	h.buckets[min(i, len(h.buckets)-1)]++
	h.count++
	if d <= h.longest {
		return false
	}
	h.longest = d
	return true
}

// quantile is the upper end of the bucket in which that part of the durations ends.
func (h *histogram) quantile(part float64) time.Duration {
	rest := int(math.Ceil(part * float64(h.count)))
	for i, n := range h.buckets {
		if rest -= n; rest <= 0 && h.count > 0 {
			end := time.Duration(math.Pow(bucketWidth, float64(i+1)) * float64(time.Microsecond))
			return min(end, h.longest)
		}
	}
	return 0
}
