package tune

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Method is one way of tuning. It has a Proposer or a Run.
type Method struct {
	Name string
	Doc  string // one line
	// Changes says what of the graph it changes: "biases", "weights", "scales", "structure". Needs says what it is fitted on: "data",
	// NeedsStatistics, "gradients".
	Changes, Needs []string
	// FromGrams: it can be fitted on Gram statistics of the float graph, without samples behind a quantized prefix; see Bench.Grams.
	FromGrams bool
	// OnlyNamed: auto takes it only where all others leave an error above its bar, and then for autoSteps and autoBlocks, unless it is named
	// beside; it comes last.
	OnlyNamed bool
	// Proposer is the whole method where it works operator by operator: Bench.Sweep does the rest.
	Proposer *Proposer
	// Run does what cannot be done operator by operator, and leaves in the bench what helped. It may put another bench into b (*b = *other),
	// on another reference that computes the same.
	Run func(ctx context.Context, b *Bench) (*Report, error)

	// Cost, if not nil, is about how many forwards it takes, where that is much: people are told before it begins, and where a tenth of it is
	// more than what is left to spend it does not begin.
	Cost func(b *Bench) (float64, error)

	// Learns, if not nil, is about how many bytes it takes to learn the weights that it learns at a time.
	Learns func(b *Bench) (int64, error)

	// Then, if not nil, does what belongs to the method and has to wait until weights and biases are settled.
	Then func(ctx context.Context, b *Bench) (*Report, error)

	above float64     // in auto: it is tried only where those before leave an error above this
	stage []*Proposer // of a stage of auto: all that are swept at once
	alone []*Method   // what is tried where that is taken back
}

// Sweeps is about how many times a method goes over all operators, to tell what is left: a change of structure is tried several times, each
// time with a correction of biases.
func (m *Method) Sweeps() int {
	if m.Run != nil {
		return 4
	}
	return max(1, len(m.stage))
}

// NeedsStatistics is what methods need that are fitted on the statistics' sums.
const NeedsStatistics = "statistics"

// Methods lists all methods, in the order in which auto tries them: those that change the structure, then by cost. Those that
// are OnlyNamed it leaves out.
var Methods = []*Method{&Spread, &Equalize, &Migrate, &Split, &Analytic, &Bias, &Range, &GPTQ, &Ridge, &Block, &Distill}

// Find returns the method of a name, nil if there is none.
func Find(name string) *Method {
	for _, m := range Methods {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Auto makes of a list of methods the stages that are worth trying one after the other, each of which is kept as a whole or not: first what
// works on the whole graph, in the order of the list; then each correction of biases; then one sweep with everything that proposes weights
// or scales, cheapest first, or, should that be taken back, one with each of them; then what has to wait for those (Then); and at the end,
// when nothing in front of an operator will change any more, the last correction of biases again, unless nothing was kept in between.
func Auto(methods []*Method) []*Method {
	var stages, biases, last []*Method
	sweep := &Method{Needs: []string{"data"}}
	var names []string
	for _, m := range methods {
		switch {
		case m.OnlyNamed:
			last = append(last, m)
		case m.Proposer == nil:
			stages = append(stages, m)
		case m.Proposer.Biases:
			biases = append(biases, m)
		default:
			sweep.stage, names = append(sweep.stage, m.Proposer), append(names, m.Name)
		}
	}
	stages = append(stages, biases...)
	if len(sweep.stage) == 0 {
		return append(stages, last...)
	}
	if len(sweep.stage) > 1 {
		for i, p := range sweep.stage {
			one := &Method{Name: names[i], Needs: sweep.Needs, stage: []*Proposer{p}}
			if n := len(biases); n > 0 {
				one.stage = slices.Insert(one.stage, 0, biases[n-1].Proposer)
			}
			sweep.alone = append(sweep.alone, one)
		}
	}
	sweep.Name = strings.Join(names, "+")
	stages = append(stages, sweep)
	for _, m := range methods {
		if m.Then != nil {
			stages = append(stages, &Method{Name: m.Name + " of activations", Needs: m.Needs, Run: m.Then})
		}
	}
	if n := len(biases); n > 0 {
		sweep.stage = slices.Insert(sweep.stage, 0, biases[n-1].Proposer)
		stages = append(stages, biases[n-1])
	}
	return append(stages, last...)
}

// What auto does of methods that learn: they are tried where the NSR of the outputs is above a bar, for so many steps, on the worst blocks,
// unless told otherwise. The bars are measured (examples/evidence/measured/block.md): behind gptq blocks gained in 9 of 10 plans with more
// than 0.01 (20 dB), and in none of two with less; the whole network in 2 of 3 with more than 0.05 (13 dB), and in none with less.
const (
	blocksAbove = 0.01
	wholeAbove  = 0.05
	autoSteps   = 200
	autoBlocks  = 5
)

// Learners are the methods that learn, as auto has them behind all others.
func Learners() (list []*Method) {
	for _, m := range []*Method{&Block, &Distill} {
		l := *m
		if l.above = blocksAbove; m == &Distill {
			l.above = wholeAbove
		}
		l.Run = func(ctx context.Context, b *Bench) (*Report, error) {
			defer b.asAuto()()
			return m.Run(ctx, b)
		}
		l.Cost = func(b *Bench) (float64, error) {
			defer b.asAuto()()
			return m.Cost(b)
		}
		list = append(list, &l)
	}
	return list
}

// asAuto has steps and blocks be those of auto unless told otherwise, until the function is called that it returns.
func (b *Bench) asAuto() (end func()) {
	steps, blocks := b.BlockSteps, b.Blocks
	b.BlockSteps, b.Blocks = cmp.Or(steps, autoSteps), cmp.Or(blocks, autoBlocks)
	return func() { b.BlockSteps, b.Blocks = steps, blocks }
}

// needed is the list without what is only to be tried above an error that is met; tried are those that were.
func needed(list []*Method, tried int, nsr float64) []*Method {
	for len(list) > tried && list[len(list)-1].above > 0 && !(nsr > list[len(list)-1].above) {
		list = list[:len(list)-1]
	}
	return list
}

// expand is the list of methods to try, given what came of the first of them.
func expand(methods []*Method, reports []*Report) []*Method {
	list := slices.Clone(methods)
	for i := 0; i < min(len(list), len(reports)); i++ {
		if m := list[i]; len(m.alone) > 0 && reports[i].takenBack() {
			list = slices.Insert(list, i+1, m.alone...)
		}
	}
	return list
}

// run tries the method.
func (m *Method) run(ctx context.Context, b *Bench) (*Report, error) {
	switch {
	case m.Run != nil:
		return m.Run(ctx, b)
	case m.Proposer != nil:
		r, err := b.Sweep(ctx, m.Proposer)
		if err != nil || m.Then == nil {
			return r, err
		}
		then, err := m.Then(ctx, b)
		if err == nil {
			r.Layers = append(r.Layers, then.Layers...)
		}
		return r, err
	}
	return b.Sweep(ctx, m.stage...)
}
