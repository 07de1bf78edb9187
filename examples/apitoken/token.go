package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redsem/redsem"
	"github.com/redsem/redsem/redisadapter/redigoadapter"
)

// Tokens hands out the access token of an API. The token lies in Redis, for all
// processes; whenever it is missing there, one request fetches a new one, and
// the others wait for that.
type Tokens struct {
	pool *redis.Pool
	key  string // of the token in Redis
	api  string // URL that answers {"access_token": "…", "expires_in": seconds}
}

// Token is the access token. It may be called by any number of goroutines and
// processes at once.
func (t *Tokens) Token(ctx context.Context) (string, error) {
	token, err := t.cached(ctx)
	if token != "" || err != nil {
		return token, err
	}
	err = redsem.WithMutexContext(ctx, t.key, redigoadapter.New(t.pool), nil, func(ctx context.Context) error {
		token, err = t.cached(ctx) // somebody may have fetched it while we waited
		if token != "" || err != nil {
			return err
		}
		token, err = t.fetch(ctx)
		return err
	}, redsem.Settings{
		Expiration: 10 * time.Second, // if this process dies, the next one tries then
		AutoRenew:  true,             // if it lives, the API may take its time
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// cached is the token in Redis, or "".
func (t *Tokens) cached(ctx context.Context) (string, error) {
	conn, err := t.pool.GetContext(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	token, err := redis.String(redis.DoContext(conn, ctx, "GET", t.key))
	if errors.Is(err, redis.ErrNil) {
		return "", nil
	}
	return token, err
}

// fetch asks the API for a new token, and puts it into Redis.
func (t *Tokens) fetch(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.api, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
		Life  int    `json:"expires_in"`
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("fetch a token: %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("fetch a token: %w", err)
	}
	conn, err := t.pool.GetContext(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	life := max(1, answer.Life*9/10) // we forget it before the API does
	_, err = redis.DoContext(conn, ctx, "SET", t.key, answer.Token, "EX", life)
	return answer.Token, err
}
