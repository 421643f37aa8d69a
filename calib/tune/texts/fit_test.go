package texts

import (
	"context"
	"reflect"
	"testing"

	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/weightstest"
)

var small = weightstest.Llama()

func ids() (texts [][]int) {
	for i := range 4 {
		ids := []int{1}
		for j := range small.Context - 1 {
			ids = append(ids, (i*17+j*j*3+j)%small.Vocab)
		}
		texts = append(texts, ids)
	}
	return texts
}

func fitted(t *testing.T, c checkpoint.Config, e weights.Encoding, bits, threads int, round bool) (*checkpoint.Model, []Loss) {
	t.Helper()
	m := weightstest.Model(t, c, 3)
	engine, err := decode.New(context.Background(), m, decode.Options{Threads: threads, Weights: decode.Weights{Float: true}})
	if err != nil {
		t.Fatal(err)
	}
	tensors, losses, err := Fit(context.Background(), Config{Model: m, Engine: engine, Bits: bits, Texts: ids(), Round: round,
		Threads: threads, Encoding: func(t *checkpoint.Tensor) weights.Encoding {
			if t.Role.Vector() {
				return weights.Float
			}
			return e
		}})
	if err != nil {
		t.Fatal(err)
	}
	return m.With(tensors), losses
}

// Every matrix is stored in the type asked for, equal for any number of threads, and GPTQ gives less error than nearest codes and than
// searched scales alone.
func TestFit(t *testing.T) {
	for _, e := range []weights.Encoding{{Type: checkpoint.Groups, Group: 16}, {Type: checkpoint.GGQ4}, {Type: checkpoint.GGQ8},
		{Type: checkpoint.GGQ41}, {Type: checkpoint.GGQ50}, {Type: checkpoint.IQ4NL},
		{Type: checkpoint.Packed, Group: 16, Scheme: &checkpoint.Schemes[0], Scale: "F16"},
		{Type: checkpoint.Packed, Group: 16, Scheme: &checkpoint.Schemes[1], Scale: "F16"}} {
		for _, tied := range []bool{false, true} {
			c := small
			c.Tied = tied
			one, losses := fitted(t, c, e, 4, 1, true)
			three, again := fitted(t, c, e, 4, 3, true)
			_, ranged := fitted(t, c, e, 4, 2, false)
			if !reflect.DeepEqual(losses, again) {
				t.Errorf("%s: other losses with three threads", e.Name())
			}
			var nearest, scales, rounded float64
			for i, l := range losses {
				nearest, scales, rounded = nearest+l.Plain, scales+ranged[i].Fit, rounded+l.Fit
			}
			if !(rounded < scales && scales < nearest) {
				t.Errorf("%s: errors %g nearest, %g with searched scales, %g with GPTQ", e.Name(), nearest, scales, rounded)
			}
			for i, x := range one.Tensors() {
				if x.Role.Vector() {
					continue
				}
				if x.Type != e.Type {
					t.Errorf("%s is %s", x.Part, x.Type)
				}
				if !reflect.DeepEqual(x.All(), three.Tensors()[i].All()) {
					t.Errorf("%s: %s differs with three threads", e.Name(), x.Part)
				}
			}
		}
	}
}

// TestFollow: GPTAQ leaves what the classifier reads nearer to the float model than GPTQ does.
func TestFollow(t *testing.T) {
	var errors [2]float64
	for i, follow := range []bool{false, true} {
		m := weightstest.Model(t, small, 3)
		var engines [2]*decode.Engine
		for k := range engines {
			var err error
			if engines[k], err = decode.New(context.Background(), m, decode.Options{Weights: decode.Weights{Float: true}}); err != nil {
				t.Fatal(err)
			}
		}
		c := Config{Model: m, Engine: engines[0], Bits: 4, Texts: ids(), Round: true, Threads: 2,
			Encoding: func(t *checkpoint.Tensor) weights.Encoding {
				if t.Role.Float() || t.Role == checkpoint.Embedding {
					return weights.Float
				}
				return weights.Encoding{Type: checkpoint.Groups, Group: 16}
			}}
		if follow {
			c.Float = engines[1]
		}
		if _, _, err := Fit(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		quantized, float := classified(t, engines[0]), classified(t, engines[1])
		for k, v := range float {
			d := float64(v) - float64(quantized[k])
			errors[i] += d * d
		}
	}
	if !(errors[1] < 0.97*errors[0]) {
		t.Errorf("squared error of what the classifier reads: %g with GPTQ, %g with GPTAQ", errors[0], errors[1])
	}
}

// classified is what the classifier is shown.
func classified(t *testing.T, e *decode.Engine) (last []float32) {
	t.Helper()
	if err := e.Walk(context.Background(), ids(), decode.Walker{Inputs: func(parts []checkpoint.Part, x []float32, cols int) error {
		if parts[0].Role == checkpoint.Classifier {
			last = append(last, x...)
		}
		return nil
	}, Ready: func([]checkpoint.Part) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	return last
}

// What the classifier is shown is what Forward multiplies it with.
func TestWalk(t *testing.T) {
	m := weightstest.Model(t, small, 3)
	engine, err := decode.New(context.Background(), m, decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var seen []checkpoint.Part
	var last []float32
	if err := engine.Walk(context.Background(), ids(), decode.Walker{Inputs: func(parts []checkpoint.Part, x []float32, cols int) error {
		if parts[0].Role == checkpoint.Classifier {
			last = append(last, x...)
		}
		return nil
	}, Ready: func(parts []checkpoint.Part) error {
		seen = append(seen, parts...)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if want := 7*small.Layers + 1; len(seen) != want {
		t.Errorf("%d matrices, want %d: %v", len(seen), want, seen)
	}
	for i, text := range ids() {
		logits, err := engine.Forward(context.Background(), []decode.Sequence{{Cache: engine.NewCache(), Tokens: text, Want: len(text)}})
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float32, small.Dim)
		for k := range len(text) {
			x := last[(i*len(text)+k)*small.Dim:][:small.Dim]
			for v := range small.Vocab {
				m.Tensor(checkpoint.Classifier, -1).Row(row, v)
				sum := float64(0)
				for d, w := range row {
					sum += float64(w) * float64(x[d])
				}
				if got := float64(logits[k*small.Vocab+v]); got-sum > 1e-4 || sum-got > 1e-4 {
					t.Fatalf("text %d, token %d: logit %d is %g, from the input of the classifier %g", i, k, v, got, sum)
				}
			}
		}
	}
}
