package qwb

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
)

// Answers ends wherever it is interrupted, before it knows what scores its first sample too.
func TestInterruptedAnswers(t *testing.T) {
	p := place(t, new(Memory), "m", 3)
	data := DataOptions{Paths: []string{"m"}}
	_, _, err := p.Calibrate(context.Background(), CalibrateOptions{Platform: "trt_int8", Data: data, Threads: 1})
	require.NoError(t, err)
	ended := 0
	for n := 0; n < 1<<20; n += 1 + n/8 {
		_, _, err := p.Answers(graphtest.NewEnding(n), AnswersOptions{Data: data, Threads: 1})
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		ended++
	}
	require.Greater(t, ended, 10)
}
