package exec

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/internal/longtest"
)

// testTeam has helpers whatever the number of processors.
func testTeam(helpers int) *team {
	t := &team{helpers: int32(helpers), wake: make(chan struct{}, 1), shares: make([]share, helpers+1)}
	t.spawn = t.help
	return t
}

// Every piece of every region is done once before run returns, by few helpers and many, in regions that follow each other
// at once and after pauses in which helpers end.
func TestTeamDoesEveryPieceOnce(t *testing.T) {
	for _, helpers := range []int{1, 2, 5} {
		team := testTeam(helpers)
		counts := make([]int, 100) // not atomic: the race detector sees a missing edge
		for region := range 3000 {
			n := region % len(counts)
			clear(counts)
			team.run(n, func(i int) { counts[i]++ })
			for i, c := range counts {
				if want := 0; i < n {
					want = 1
					require.Equal(t, want, c, "piece %d of %d in region %d", i, n, region)
				} else {
					require.Equal(t, want, c)
				}
			}
			if region%500 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// A piece that takes long holds up its own region only, and the owner sleeps until it is done.
func TestTeamWaitsForSlowPieces(t *testing.T) {
	team := testTeam(2)
	var done atomic.Int32
	for range 5 {
		team.run(6, func(i int) {
			if i >= 2 {
				time.Sleep(time.Millisecond)
			}
			done.Add(1)
		})
		require.Zero(t, done.Load()%6)
	}
	assert.EqualValues(t, 30, done.Load())
}

// Runners that share a team, and regions within regions, do their work without waiting for each other.
func TestTeamIsShared(t *testing.T) {
	team := testTeam(2)
	var wg sync.WaitGroup
	var total atomic.Int64
	for range 4 {
		wg.Go(func() {
			for range 200 {
				team.run(8, func(int) { team.run(4, func(int) { total.Add(1) }) })
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 4*200*8*4, total.Load())
}

// Helpers end when no region comes: an idle session costs nothing.
func TestTeamEndsWhenIdle(t *testing.T) {
	team := testTeam(3)
	team.run(64, func(int) { runtime.Gosched() })
	assert.LessOrEqual(t, team.alive.Load(), int32(3))
	assert.Eventually(t, func() bool { return team.alive.Load() == 0 }, longtest.Hang, time.Millisecond)
}

// The partition of a loop depends on its size and cost alone.
func TestPieces(t *testing.T) {
	assert.Equal(t, 1, pieces(100, 1))
	assert.Equal(t, 2, pieces(2*grain, 1))
	assert.Equal(t, 4, pieces(4, grain))
	assert.Equal(t, maxPieces, pieces(1000*grain, 1))
	assert.Nil(t, parallelFunc(0))
	assert.Nil(t, parallelFunc(1))
}

// TestAPanicOfAPieceIsOneOfTheCaller: whoever had the piece, the caller can recover, and the team goes on.
func TestAPanicOfAPieceIsOneOfTheCaller(t *testing.T) {
	team := testTeam(3)
	for range 100 {
		var list []int
		err := graph.Try(func() error {
			team.run(64, func(i int) {
				if i == 63 { // a piece of a helper, where one comes in time
					list[i]++
				}
			})
			return nil
		})
		require.ErrorContains(t, err, "index out of range [63]")
	}
	var sum atomic.Int64
	team.run(64, func(i int) { sum.Add(int64(i)) })
	assert.EqualValues(t, 2016, sum.Load())
}
