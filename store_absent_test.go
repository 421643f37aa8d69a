package qwb

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/internal/work/open"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/plan"
)

// every store, with the folder that its files are in.
func everyStore(t *testing.T) map[string]Store {
	return map[string]Store{"os": OS{}, "memory": &Memory{}, "scratch": &store.Scratch{Base: &Memory{}}}
}

// TestExpectedToBeAbsent: a stage that expects no file there is told where somebody else was faster.
func TestExpectedToBeAbsent(t *testing.T) {
	for name, s := range everyStore(t) {
		file := filepath.Join(t.TempDir(), "new")
		for _, first := range []bool{true, false} {
			stage := s.Stage()
			stage.Expect(file, "")
			require.NoError(t, stage.Add(file, store.BytesOf([]byte(fmt.Sprint(first)))))
			if err := stage.Commit(); first {
				require.NoError(t, err, name)
			} else {
				require.ErrorAs(t, err, new(*ChangedError), name)
			}
			stage.Discard()
		}
		b, err := fs.ReadFile(s, file)
		require.NoError(t, err)
		require.Equal(t, "true", string(b), name)
	}
}

// racing is a store in which somebody writes a file just before the first commit.
type racing struct {
	Store
	once sync.Once
	race func()
}

func (r *racing) Stage() Stage { return &racingStage{r.Store.Stage(), r} }

type racingStage struct {
	Stage
	store *racing
}

func (s *racingStage) Commit() error {
	s.store.once.Do(s.store.race)
	return s.Stage.Commit()
}

// TestTwoFirstPlans: of two that write the first plan of a model, the later keeps the other's as .bak.
func TestTwoFirstPlans(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("quantizer", "plan", "testdata", "plan.json"))
	require.NoError(t, err)
	p, err := plan.Parse("p", b)
	require.NoError(t, err)
	m := &Memory{}
	s := &racing{Store: m, race: func() { m.Write("m.plan.json", []byte("the other's")) }}
	j := &open.Job{Project: &open.Project{Plan: "m.plan.json", Store: s}}
	_, err = planning.WritePlan(j, "m.plan.json", p, "", nil)
	require.NoError(t, err)
	kept, _ := m.Read("m.plan.json.bak")
	require.Equal(t, "the other's", string(kept))
	now, _ := m.Read("m.plan.json")
	require.NotEqual(t, "the other's", string(now))
}
