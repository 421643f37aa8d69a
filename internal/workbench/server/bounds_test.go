package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/internal/workbench/server"
)

// slowly sends the head of a request whose body never comes, and returns the answer.
func slowly(t *testing.T, s *served, head string) (net.Conn, func() *http.Response) {
	t.Helper()
	address := strings.TrimPrefix(s.base, "http://")
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = fmt.Fprintf(c, "%sHost: %s\r\n\r\n", head, address)
	require.NoError(t, err)
	return c, func() *http.Response {
		_ = c.SetReadDeadline(time.Now().Add(longtest.Hang))
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, a.Body)
		return a
	}
}

// Who has not shown the token is answered at once, whatever body is still to come, and the connection ends.
func TestNoBodyIsWaitedForWithoutTheToken(t *testing.T) {
	s := serve(t)
	c, answer := slowly(t, s, "POST /api/state HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n")
	require.Equal(t, http.StatusForbidden, answer().StatusCode)
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// A body that does not come ends its request, of a call and of a file; so does a file that is too large.
func TestBodiesThatDoNotCome(t *testing.T) {
	before := server.SetBodyPatience(50 * time.Millisecond)
	t.Cleanup(func() { server.SetBodyPatience(before) })
	s := serve(t)
	token := "X-Qwb-Token: " + s.Token + "\r\n"
	_, answer := slowly(t, s, "POST /api/state HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"+token)
	require.GreaterOrEqual(t, answer().StatusCode, 400)
	_, answer = slowly(t, s, "POST /api/upload?name=a.npy HTTP/1.1\r\nContent-Length: 1000\r\n"+token)
	require.GreaterOrEqual(t, answer().StatusCode, 400)
	_, answer = slowly(t, s, "POST /api/upload?name=b.npy HTTP/1.1\r\nContent-Length: 99999999999999\r\n"+token)
	require.Equal(t, http.StatusRequestEntityTooLarge, answer().StatusCode)
}

// Connections that say nothing lock nobody out.
func TestConnectionsWithoutTheTokenGiveWay(t *testing.T) {
	s := serve(t)
	for range 200 {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	status, _, _ := s.ask(t, http.MethodGet, "/", "")
	require.Equal(t, http.StatusOK, status)
}
