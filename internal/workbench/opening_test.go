package workbench_test

import (
	"context"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/internal/longtest"
	"qwb/internal/workbench"
)

// watchedStore is a store that shows every file that is opened.
type watchedStore struct {
	*qwb.Memory
	open atomic.Pointer[func(name string)]
}

func (s *watchedStore) Open(name string) (fs.File, error) {
	if f := s.open.Load(); f != nil {
		(*f)(name)
	}
	return s.Memory.Open(name)
}

// watched is a bench on a plan, not read yet, in a store whose files fn sees when they are opened.
func watched(t *testing.T, fn func(name string)) *workbench.Bench {
	t.Helper()
	s := &watchedStore{Memory: planned(t).store}
	b := workbench.New(workbench.Options{Project: qwb.Project{Plan: "glyphs.plan.json", Store: s, Catalog: qwb.Standard("test")}, Threads: 2})
	t.Cleanup(b.Close)
	s.open.Store(&fn)
	return b
}

// While a model loads, who asks for something else is answered.
func TestStateWhileAModelLoads(t *testing.T) {
	loading, goOn := make(chan struct{}, 100), make(chan struct{})
	b := watched(t, func(name string) {
		if strings.HasSuffix(name, ".onnx") {
			loading <- struct{}{}
			<-goOn
		}
	})
	drawn := b.Ahead(context.Background())
	<-loading
	asked := make(chan string)
	go func() { asked <- b.Revision() }()
	select {
	case revision := <-asked:
		require.NotEmpty(t, revision)
	case <-time.After(longtest.Hang):
		t.Error("the lock is held while the model loads")
	}
	close(goOn)
	<-drawn
	_, err := b.Call(context.Background(), "view", []byte(`{"brief":true}`), "")
	require.NoError(t, err)
}

// A panic while the first view is drawn ends nothing: who asks for the view gets its answer.
func TestAPanicWhileTheFirstViewIsDrawn(t *testing.T) {
	var panics atomic.Int64
	b := watched(t, func(name string) {
		if strings.HasSuffix(name, ".onnx") && panics.Add(1) == 1 {
			panic("a fault of the test")
		}
	})
	<-b.Ahead(context.Background())
	require.EqualValues(t, 1, panics.Load())
	_, err := b.Call(context.Background(), "view", []byte(`{"brief":true}`), "")
	require.NoError(t, err)
}
