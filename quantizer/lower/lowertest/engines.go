package lowertest

import (
	"context"
	"embed"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/qdq"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// engines holds one file for each family that was held to an engine; record.py says what is in one and writes the answers.
//
//go:embed engines/*.txt
var engines embed.FS

// Answered is a network of Q and DQ, and the integers that an engine answered.
type Answered struct {
	Name    string // of file and engine
	Graph   *graph.Graph
	Set     *tqc.Set
	Target  *target.Target
	Program *lower.Program
	Feeds   map[string]*tensor.Tensor
	Answer  []float32 // of the only output
}

// Engines lists all of them, in the order of the files.
func Engines(t testing.TB) []Answered {
	t.Helper()
	files, err := fs.Glob(engines, "engines/*.txt")
	require.NoError(t, err)
	var list []Answered
	for _, file := range files {
		raw, err := engines.ReadFile(file)
		require.NoError(t, err)
		parts := map[string]string{}
		for _, part := range strings.Split("\n"+string(raw), "\n-- ")[1:] {
			head, body, _ := strings.Cut(part, " --\n")
			parts[head] = body
		}
		answers := strings.Split(strings.TrimSpace(parts["answers"]), "\n")
		for i, line := range strings.Split(strings.TrimSpace(parts["engines"]), "\n") {
			words := strings.Fields(line)
			a := answered(t, parts["network"], words[1], words[2], answers[i])
			a.Name = strings.TrimSuffix(strings.TrimPrefix(file, "engines/"), ".txt") + "/" + words[0]
			list = append(list, a)
		}
	}
	return list
}

func answered(t testing.TB, text, platform, profile, answer string) Answered {
	t.Helper()
	g := graphtest.Parse(t, text)
	graph.InferShapes(g)
	q, err := qdq.Read(context.Background(), g)
	require.NoError(t, err)
	tg, err := target.Known(platform)
	require.NoError(t, err)
	im, err := q.Configure(tg)
	require.NoError(t, err)
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	p, err := lower.Compile(im.Graph, im.Set, tg, pr)
	require.NoError(t, err)
	a := Answered{Graph: im.Graph, Set: im.Set, Target: tg, Program: p}
	x, y := &p.Tensors[p.Steps[0].Outputs[0]], &p.Tensors[p.Steps[len(p.Steps)-1].Inputs[0]]
	shape, known := x.Shape.Ints()
	require.True(t, known)
	feed := tensor.New(tensor.Float32, shape...)
	for i, code := range drawn(feed.Len(), *x.Encoding) {
		feed.F32()[i] = x.Encoding.Grid().Dequantize(code)
	}
	a.Feeds = map[string]*tensor.Tensor{p.Tensors[p.Inputs[0]].Name: feed}
	for _, word := range strings.Fields(answer) {
		code, err := strconv.ParseInt(word, 10, 32)
		require.NoError(t, err)
		a.Answer = append(a.Answer, y.Encoding.Grid().Dequantize(int32(code)))
	}
	return a
}

// drawn are the codes that record.py draws.
func drawn(n int, e lower.Encoding) []int32 {
	codes, seed := make([]int32, n), uint32(20261122)
	for i := range codes {
		seed = (seed*1103515245 + 12345) & (1<<31 - 1)
		switch raw := seed >> 8; e.DType() {
		case tensor.Int8:
			codes[i] = int32(int8(raw >> 8))
		case tensor.Uint8:
			codes[i] = int32(uint8(raw >> 8))
		case tensor.Int16:
			codes[i] = int32(int16(raw))
		default:
			codes[i] = int32(uint16(raw))
		}
	}
	return codes
}
