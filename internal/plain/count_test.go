package plain_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/internal/plain"
)

func TestCount(t *testing.T) {
	assert.Equal(t, "0 operators", plain.Count(0, "operator"))
	assert.Equal(t, "1 operator", plain.Count(1, "operator"))
	assert.Equal(t, "2 biases", plain.Count(2, "bias"))
}
