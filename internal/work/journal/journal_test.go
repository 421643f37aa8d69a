package journal

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/internal/work/open"
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
				if err := keepOutcome(m, "m.runs.jsonl", o); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	b, _ := m.Read("m.runs.jsonl")
	require.Equal(t, 4*each, strings.Count(string(b), "\n"))
}

// Many at once, and many: no line is torn or lost, and the file stays small.
func TestOutcomesOfMany(t *testing.T) {
	t.Chdir(t.TempDir())
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for k := range 12 {
				require.NoError(t, keepOutcome(store.OS{}, "m.runs.jsonl", Outcome{State: "s", Command: fmt.Sprint(i, "-", k),
					Figures: Object(struct{}{})}))
			}
		})
	}
	wait.Wait()
	j := &open.Job{Project: &open.Project{Plan: "m.plan.json"}}
	require.Len(t, Outcomes(j, "m.plan.json")["s"], 8*12)
	long := Object(strings.Repeat("x", 4000))
	many := maxRuns/4000 + 20 // the oldest make room
	for k := range many {
		require.NoError(t, keepOutcome(store.OS{}, "m.runs.jsonl", Outcome{State: "s", Command: fmt.Sprint(k), Figures: long}))
	}
	info, err := os.Stat("m.runs.jsonl")
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(maxRuns))
	list := Outcomes(j, "m.plan.json")["s"]
	require.Equal(t, fmt.Sprint(many-1), list[len(list)-1].Command)
	require.Greater(t, len(list), 20)
}

// An outcome that is too long for a line is refused, and nothing is written.
func TestOutcomeIsShort(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Error(t, keepOutcome(store.OS{}, "m.runs.jsonl", Outcome{State: "x", Command: "eval",
		Figures: Object(strings.Repeat("x", maxOutcome))}))
	require.NoFileExists(t, "m.runs.jsonl")
}

func TestOutcomeText(t *testing.T) {
	o := Outcome{Command: "eval",
		Figures: json.RawMessage(`{"data":["a","b"],"mode":"sim","n":500,"top1":400,"drop":0.41234,"drop_error":0.2,"confirmed":true}`)}
	require.Equal(t, "eval: data a b, mode sim, n 500, top1 400, drop 0.41 ± 0.20 pp, confirmed true", o.String())
}
