package graph

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPanicIsAnError(t *testing.T) {
	var list []int
	err := Try(func() error { return errors.New(string(rune(list[0]))) })
	var bug *Bug
	require.ErrorAs(t, err, &bug)
	assert.EqualError(t, err, "bug in qwb: runtime error: index out of range [0] with length 0")
	assert.Contains(t, string(bug.Stack), "TestAPanicIsAnError")

	assert.Same(t, bug, Try(func() error { panic(bug) }), "handed from one goroutine to another")
	assert.EqualError(t, Try(func() error { return errors.New("what it says") }), "what it says")

	assert.Same(t, bug, Try(func() error {
		var g Group
		g.Go(func() { panic(bug) })
		g.Go(func() {})
		g.Wait()
		return nil
	}), "of a goroutine that was waited for")
	assert.NoError(t, Try(func() error { return nil }))
}
