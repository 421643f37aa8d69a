package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// TestAProgramThatDoesNotReadIsGivenUp: what the shell started holds the pipe and does not read; the request is larger than the pipe.
func TestAProgramThatDoesNotReadIsGivenUp(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("needs sleep")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p, err := startLines(ctx, "exec 3<&0; sleep 3600 <&3 >/dev/null 2>&1 & wait", "qwb-test-")
	require.NoError(t, err)
	time.AfterFunc(100*time.Millisecond, stop)
	ended := make(chan error, 1)
	go func() {
		_, err := p.exchange(strings.Repeat("x", 1<<20))
		ended <- err
	}()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(longtest.Hang):
		t.Fatal("the write is not ended by the context")
	}
	_ = p.Close() // it was killed
}
