package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
)

// Two readers agree, or each thing in which they do not is named.
func TestSecondReading(t *testing.T) {
	const text = "opset 17\ninput x: f32[4]\na = Relu(x) \"r\"\ny = Add(a, x) \"s\"\noutput y: f32[4]\n"
	for other, want := range map[string]int{text: 0,
		"opset 17\ninput x: f32[4]\na = Abs(x)\ny = Add(a, x)\noutput y: f32[4]\n":  1,
		"opset 17\ninput x: f32[4]\na = Relu(x)\ny = Add(x, a)\noutput y: f32[4]\n": 1,
		"opset 17\ninput x: f32[4]\na = Relu(x)\noutput a: f32[4]\n":                2} {
		r := &SecondReading{}
		r.compare(graphtest.Parse(t, text), graphtest.Parse(t, other))
		require.Equal(t, want, r.Different, "%q", r.Differences)
	}
}
