package language

import (
	"context"

	"qwb/export/language/weights"
	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
)

// fits refuses, before anything runs, fitting on texts that takes more memory than the command may, and says how much would do. mixed is
// for types that are measured (Mix) and then fitted.
func fits(ctx context.Context, m *checkpoint.Model, way weights.Way, ids [][]int, mixed bool) error {
	most, need := exec.MemoryOf(ctx), fittingBytes(m, way, ids)
	if mixed {
		need = max(need, mixingBytes(m, ids))
	}
	if most == 0 || need <= most {
		return nil
	}
	return &exec.MemoryError{Type: "fitting these weights", Bytes: need, Budget: most, Run: true}
}

const (
	programBytes = 64 << 20 // the program, its runtime, tokens, and pages of files
	stripBytes   = 30 << 20 // weights that are fitted at once, with what they become
	inputBytes   = 16 << 20 // rows that matrices read, and those that are added to moments
)

// heldBytes is how much of what matrices read is held in memory while they are fitted: a sixteenth of what there is where no limit was
// given, as the system is slow to take files of gigabytes that are soon gone. 0 is little.
func heldBytes(ctx context.Context) int {
	if exec.MemoryOf(ctx) > 0 {
		return 0
	}
	return int(exec.AvailableMemory() / 16)
}

// sizes are bytes of parts of a model.
type sizes struct {
	layer  int64 // the largest one, as floats
	piece  int64 // the largest matrix that is packed at once
	stored int64 // the largest matrix in 8 bits, while it is put together
	square int64 // moments of the widest input
	wide   int64 // stripBytes, of which rows that are longer have more
	rows   int64 // activations of texts that run at once
}

func sizesOf(m *checkpoint.Model, ids [][]int) (s sizes) {
	layers, wide := map[int]int64{}, 0
	for _, t := range matricesOf(m) {
		n := int64(t.Len())
		wide, s.stored = max(wide, t.Cols), max(s.stored, 2*n+n/8)
		if t.Layer < 0 {
			n /= decode.ClassifierParts
		} else {
			layers[t.Layer] += 4 * n
			s.layer = max(s.layer, layers[t.Layer])
		}
		s.piece = max(s.piece, 4*n)
	}
	s.square = 8 * int64(wide) * int64(wide)
	s.wide = stripBytes * max(int64(wide), 2048) / 2048
	s.rows = 4 * int64(decode.WalkRows(ids)) * int64(3*m.Hidden+8*m.Dim)
	return s
}

// fittingBytes is what Fit takes: a layer, two of them where the float model runs beside, sums and moments, and their factor. Where
// channels are scaled, it is a layer before that, and moments of two parts of the texts.
func fittingBytes(m *checkpoint.Model, way weights.Way, ids [][]int) int64 {
	s := sizesOf(m, ids)
	engines, squares := int64(1), int64(2)
	if way.Round {
		squares++
	}
	if way.Follow {
		engines, squares = engines+1, squares+2
	}
	need := programBytes + engines*(s.layer+s.piece+s.rows+inputBytes) + squares*s.square + s.stored + s.wide
	if way.Scale { // before that; pages of what was scaled stay
		need = inputBytes + max(need, programBytes+s.layer+s.piece+s.rows+inputBytes+3*s.square+s.wide)
	}
	return need
}

// mixingBytes is what Mix takes: the layer that the texts are in front of and the one that runs, and logits of the float model and of
// another one.
func mixingBytes(m *checkpoint.Model, ids [][]int) int64 {
	s := sizesOf(m, ids)
	return programBytes + 2*(s.layer+s.piece) + s.rows + s.stored + 2*4*int64(mixRows(m)*m.Vocab)
}
