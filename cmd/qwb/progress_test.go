package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
)

// TestProgressWithoutATerminal: long work says now and then how far it is; six minutes of it used to print nothing. Quick work stays
// silent.
func TestProgressWithoutATerminal(t *testing.T) {
	var b bytes.Buffer
	log := &lockedWriter{w: &b}
	e := &env{stderr: log, every: 2 * time.Millisecond}
	set, finish := e.progress("search", 40)
	set(10)
	require.Eventually(t, func() bool {
		log.mu.Lock()
		defer log.mu.Unlock()
		return strings.Count(b.String(), "\n") >= 2
	}, longtest.Hang, time.Millisecond)
	finish()
	finish()
	assert.Regexp(t, `^(search: \d+ of 40 after 0s.*\n)+$`, b.String())
	n := b.Len()
	time.Sleep(10 * time.Millisecond)
	assert.Equal(t, n, b.Len(), "nothing is said after the end")

	b.Reset()
	e.every = 0
	set, finish = e.progress("quick", 3)
	set(3)
	finish()
	assert.Empty(t, b.String())
}

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		done, total int
		passed      time.Duration
		want        string
	}{
		{0, 40, 10 * time.Second, "x: 0 of 40 after 10s"},
		{10, 40, 20 * time.Second, "x: 10 of 40 after 20s, about 1m0s left"},
		{5e8, 2e9, 20 * time.Second, "x: 500000000 of 2000000000 after 20s, about 1m0s left"},
		{40, 40, 20 * time.Second, "x: 40 of 40 after 20s"},
		{7, 0, 95 * time.Second, "x: 7 after 1m35s"},
	} {
		assert.Equal(t, c.want, progressLine("x", c.done, c.total, c.passed))
	}
}

// A warning stands once, however often samples are opened.
func TestAWarningStandsOnce(t *testing.T) {
	var b bytes.Buffer
	e := &env{stderr: &b}
	for _, name := range []string{"a.txt", "b.txt", "a.txt"} {
		e.warn("%s is not a sample", name)
	}
	require.Equal(t, "warning: a.txt is not a sample\nwarning: b.txt is not a sample\n", b.String())
}
