package journal

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/internal/work/store"
)

// TestOutcomesOfTwoProjects: projects of one store in memory lose no line.
func TestOutcomesOfTwoProjects(t *testing.T) {
	m := &store.Memory{}
	var all sync.WaitGroup
	const each = 50
	for p := range 4 {
		all.Go(func() {
			for i := range each {
				o := Outcome{Command: "eval", State: fmt.Sprintf("%d/%d", p, i), Figures: json.RawMessage("{}")}
				if err := KeepOutcome(m, "m.runs.jsonl", o); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	b, _ := m.Read("m.runs.jsonl")
	require.Equal(t, 4*each, strings.Count(string(b), "\n"))
}
