//go:build unix

package server_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func makePipe(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, syscall.Mkfifo(name, 0o600))
}
