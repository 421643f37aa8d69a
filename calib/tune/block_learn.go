package tune

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels"
	"qwb/kernels/elementary"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// How rounding is learnt. The schedule is AdaRound's: a fifth of the steps without regularization, then an exponent that falls from 20 to 2
// drives every weight to one side. The loss is the squared error of the block as a share of what rounding to nearest leaves, and the
// regularization is a mean over the weights: both are about 1, whatever the network, so that one weight serves all.
const (
	DefaultSteps  = 1000
	learningRate  = 0.05  // of the variables of rounding; it falls to 0 where steps go by signs
	wholeRate     = 0.03  // the same where the whole network is learnt; it falls to 0
	tunedRate     = 0.003 // and of weights that were tuned before
	biasRate      = 0.01  // of biases, in their units; it falls to 0
	warmUp        = 0.2
	firstExponent = 20
	lastExponent  = 2
	scalePath     = 0.1 // how far the logarithm of a scale may go; its rate falls to 0
	powerPath     = 2   // the same of a power of two, which has to go to the next
	regularWeight = 60
	looks         = 10   // how often what is learnt is rounded and looked at, from the middle of the steps on
	settling      = 0.15 // the share of steps at the end in which weights are rounded and biases go on
	stretchHigh   = 1.1  // the rectified sigmoid, Louizos et al. 2018: a sigmoid from -0.1 to 1.1 that is cut to [0, 1]
	stretchLow    = -0.1
	adamFirst     = 0.9
	adamSecond    = 0.999
	adamLeast     = 1e-8
)

// soft is a weight between two neighbours of its grid: (lower + h(v)) * scale, h being the rectified sigmoid.
type soft struct {
	layer        int // of the block
	shape        []int
	lower, scale []float32 // lower in steps from zero; it and its upper neighbour are on the grid
	v            []float32
	tuned        bool
	mover
}

// newSoft begins where the weight is, or at the end of the grid that is nearest. Where now, a weight that was tuned, is on another step
// than the nearest it begins half way to that, so that rounded it is what it was.
func newSoft(w, now *tensor.Tensor, set *tqc.Set, slot tqc.SlotID, by string) (*soft, error) {
	w, now = w.ToRowMajor(), now.ToRowMajor()
	parts, err := tqc.PartsOf(w, &set.Slot(slot).Config)
	if err != nil {
		return nil, err
	}
	n := w.Len()
	s := &soft{shape: w.Shape, lower: make([]float32, n), scale: make([]float32, n), v: make([]float32, n), mover: newMover(by, n)}
	s.tuned = !slices.Equal(w.F32(), now.F32())
	for i, x := range w.F32() {
		grid := set.Grid(slot, parts.Of(i))
		at := float64(x) / float64(grid.Scale)
		low, high := float64(grid.QMin-grid.ZeroPoint), float64(grid.QMax-grid.ZeroPoint)
		lower := min(max(qmath.Down.Round(at), low), high-1)
		code := lower
		if s.tuned {
			if code = float64(grid.Quantize(now.F32()[i]) - grid.ZeroPoint); code != lower && code != lower+1 {
				lower = min(max(min(code, qmath.Down.Round(at)), code-1), high-1)
			}
		}
		rest := min(max(at-lower, 0.01), 0.99)
		if s.tuned {
			rest = min(max((rest+code-lower)/2, 0.01), 0.99)
		}
		s.lower[i], s.scale[i] = float32(lower), grid.Scale
		s.v[i] = float32(-math.Log((stretchHigh-stretchLow)/(rest-stretchLow) - 1))
	}
	return s, nil
}

// Optimizers of learning: Adam (Kingma and Ba 2015, algorithm 1), and signed SGD, which takes each step by the sign of the gradient
// (Bernstein et al. 2018, "signSGD", algorithm 1).
const (
	Adam    = "adam"
	SignSGD = "sign"
)

// mover moves numbers against their gradients: by their signs where it has no moments.
type mover struct {
	first, second []float32
	one, two      float64 // what the moments of this step are divided by, since they began at 0
}

func newMover(by string, n int) mover {
	if by == SignSGD {
		return mover{}
	}
	return mover{first: make([]float32, n), second: make([]float32, n)}
}

// begin is for step n, counted from 1.
func (a *mover) begin(n int) {
	a.one, a.two = 1-elementary.Pow(adamFirst, float64(n)), 1-elementary.Pow(adamSecond, float64(n))
}

// move is what is taken off number i in this step, as a share of the learning rate.
func (a *mover) move(i int, g float64) float64 {
	if a.first == nil {
		return float64(cmp.Compare(g, 0))
	}
	a.first[i] = float32(adamFirst*float64(a.first[i]) + (1-adamFirst)*g)
	a.second[i] = float32(adamSecond*float64(a.second[i]) + (1-adamSecond)*g*g)
	return float64(a.first[i]) / a.one / (math.Sqrt(float64(a.second[i])/a.two) + adamLeast)
}

// shift is a bias that is learnt, or what a normalization has: unit is what is much for a channel.
type shift struct {
	shape       []int
	value, unit []float32
	mover
}

// bias begins with the bias as it is. A channel's unit is what errors of half a step in its weights would come to, if signs are as chance
// has them and what is read is as large as its range.
func (w *lessonWriter) bias(own graph.NodeID, s *soft) *shift {
	n := w.p.Graph.Node(own)
	t := w.p.Graph.Const(n.Inputs[graph.BiasInput])
	b := &shift{shape: t.Shape, value: slices.Clone(t.F32()), unit: make([]float32, t.Len()),
		mover: newMover(w.p.Optimizer, t.Len())}
	reach := float32(1)
	if x := w.p.Set.Input(own, graph.DataInput); x != tqc.NoSlot && w.p.Set.Params(x).Ready() {
		grid := w.p.Set.Grid(x, 0)
		reach = grid.Scale * float32(grid.QMax-grid.QMin)
	}
	m, _ := graph.LinearOf(n, graph.WeightInput, s.shape)
	per := max(len(s.scale)/len(b.unit), 1)
	m.Each(func(lo, hi, o, _ int) {
		for i := lo; i < hi; i++ {
			b.unit[o] = max(b.unit[o], s.scale[i])
		}
	})
	for c := range b.unit {
		b.unit[c] *= reach * float32(math.Sqrt(float64(per))) / 4
	}
	return b
}

// step moves the numbers; left is the learning rate over that of the first step.
func (b *shift) step(gradient []float32, n int, left float64) {
	b.begin(n)
	for c, g := range gradient {
		b.value[c] -= b.unit[c] * float32(biasRate*left*b.move(c, float64(g)))
	}
}

// lsq is the scale of an activation that is learnt: first * e^log. The gradient is LSQ's (Esser et al. 2020, "Learned Step Size
// Quantization"), of which the logarithm takes steps that are relative; a power of two passes the gradient through its rounding (TQT, Jain
// et al. 2020, "Trained Quantization Thresholds").
type lsq struct {
	root  tqc.SlotID
	first float32
	zero  []int32
	power bool
	log   []float32 // one number
	mover
}

func (s *lsq) scale() float32 {
	if s.power {
		return float32(math.Ldexp(float64(s.first), int(qmath.HalfEven.Round(float64(s.log[0])/math.Ln2))))
	}
	return float32(float64(s.first) * elementary.Exp(float64(s.log[0])))
}

// step moves the logarithm against the gradient of the scale; share is the learning rate over that of the first step, and over the steps.
func (s *lsq) step(gradient float32, n int, share float64) {
	s.begin(n)
	path := scalePath
	if s.power {
		path = powerPath
	}
	s.log[0] -= float32(path * share * s.move(0, float64(gradient)*float64(s.scale())))
}

// rectified is h and its derivative, where the sigmoid of v is s.
func rectified(s float32) (h, slope float64) {
	x := float64(s)
	h = float64(x*(stretchHigh-stretchLow)) + stretchLow
	if h <= 0 || h >= 1 {
		return min(max(h, 0), 1), 0
	}
	return h, x * (1 - x) * (stretchHigh - stretchLow)
}

// softGrain is how many soft weights are worth a piece of their own, and softRow how many are looked at together.
const (
	softGrain = 1 << 12
	softRow   = 1 << 8
)

// sigmoids calls f with the sigmoids of the variables from each of many places on.
func (s *soft) sigmoids(par kernels.Parallel, f func(from int, sigmoids []float32)) {
	par.Slices(len(s.v), softGrain, func(lo, hi int) {
		var row [softRow]float32
		for ; lo < hi; lo += softRow {
			v := s.v[lo:min(lo+softRow, hi)]
			rows().Sigmoid(row[:len(v)], v)
			f(lo, row[:len(v)])
		}
	})
}

// weight writes the weight, soft or rounded.
func (s *soft) weight(par kernels.Parallel, dst []float32, hard bool) {
	if hard {
		for i, v := range s.v {
			h := float32(0)
			if v >= 0 {
				h = 1
			}
			dst[i] = (s.lower[i] + h) * s.scale[i]
		}
		return
	}
	s.sigmoids(par, func(from int, sigmoids []float32) {
		for k, x := range sigmoids {
			h, _ := rectified(x)
			dst[from+k] = (s.lower[from+k] + float32(h)) * s.scale[from+k]
		}
	})
}

// step moves the variables against the gradient of the weight, and of the regularization: weight * mean of 1 - |2h - 1|^exponent.
func (s *soft) step(par kernels.Parallel, gradient []float32, n int, rate, weight, exponent float64) {
	s.begin(n)
	s.sigmoids(par, func(from int, sigmoids []float32) {
		for k, x := range sigmoids {
			i := from + k
			h, slope := rectified(x)
			g := float64(gradient[i]) * float64(s.scale[i]) * slope
			if weight > 0 && slope != 0 {
				d := 2*h - 1
				g -= weight * 2 * exponent * math.Copysign(elementary.Pow(math.Abs(d), exponent-1), d) * slope
			}
			s.v[i] -= float32(rate * s.move(i, g))
		}
	})
}

// learntLayer is what a block has of one operator.
type learntLayer struct {
	layer        int
	weight, bias *tensor.Tensor // bias is nil where there is none
}

// learnt is what a block has learnt.
type learnt struct {
	weights []learntLayer
	norms   []*tensor.Tensor // by norm of the lesson
	scales  []Chosen         // of activations, those that have moved
}

// learn returns the rounded weights with their biases, and scales: the best, on samples that fit, of what was rounded at several times of
// the schedule.
func (l *lesson) learn(ctx context.Context) (*learnt, error) {
	samples := l.alike()
	if len(samples) == 0 {
		return nil, fmt.Errorf("no samples")
	}
	l.batch = min(l.batch, len(samples))
	source := rand.NewPCG(uint64(len(l.weights)), uint64(l.k.exit()))
	random, r, feeds := rand.New(source), l.session.NewRunner(), l.feeds()
	found, err := l.begin(ctx, r, feeds, samples, source)
	if err != nil || found.First == 0 {
		return l.rounded(), err
	}
	count := 0
	for _, s := range l.weights {
		count += len(s.v)
	}
	for i := range l.k.exits {
		feeds[fmt.Sprint(fedFactor, i)].F32()[0] = float32(l.k.slope(i) * l.weigh[i] / (found.First * float64(l.batch)))
	}
	steps := l.affordable()
	l.steps = steps
	soft := steps
	if !l.k.all {
		soft = int(float64(steps) * (1 - settling))
	}
	for {
		if done := found.Step; done == steps || done > soft/2 && done%max(steps/looks, 1) == 0 {
			e, err := l.error(ctx, r, feeds, samples)
			if err != nil {
				return nil, err
			}
			if e < found.Least {
				found.Least, found.Best = e, l.values()
			}
		}
		if found.Step == steps {
			break
		}
		n := found.Step + 1
		l.draw(random, feeds, samples)
		l.feed(feeds, n > soft || l.k.all)
		out, err := r.Run(ctx, feeds, nil)
		if err != nil {
			return nil, err
		}
		l.step(out[2*len(l.k.exits):], n, float64(n)/float64(soft), count)
		found.Step = n
		if found.Random, err = source.MarshalBinary(); err == nil {
			err = l.p.learning(func() *Lesson { return l.at(found) })
		}
		if err != nil {
			return nil, err
		}
	}
	l.p.forwards(passesOf(steps, l.batch, len(samples)) * l.p.shareOf(l.k))
	l.restore(found.Best)
	return l.rounded(), l.p.learning(nil)
}

// step moves weights and biases in step n, at being how much of the schedule of the weights is done. Behind it they are rounded, and biases
// make up for what that changes. The whole network's weights are rounded in every step, and pass their gradients to what is not (Bengio et
// al. 2013).
func (l *lesson) step(gradients []*tensor.Tensor, n int, at float64, count int) {
	weight, exponent := 0.0, 0.0
	left := max(1-at, 0) // of the rates of biases and scales
	if regular := (at - warmUp) / (1 - warmUp); regular > 0 && !l.k.all {
		weight, exponent = regularWeight/float64(count), lastExponent+(firstExponent-lastExponent)*max(1-regular, 0)
	}
	if at > 1 {
		left = 1 - (at-1)/(1/(1-settling)-1)
	}
	for i, s := range l.weights {
		if at <= 1 {
			s.step(l.par, gradients[0].F32(), n, l.rate(s, left), weight, exponent)
		}
		gradients = gradients[1:]
		if b := l.biases[i]; b != nil {
			b.step(gradients[0].F32(), n, left)
			gradients = gradients[1:]
		}
	}
	for _, b := range l.norms {
		b.step(gradients[0].F32(), n, left)
		gradients = gradients[1:]
	}
	for i, s := range l.scales {
		s.step(gradients[i].F32()[0], n, left/float64(l.steps))
	}
}

// rate is the learning rate of a weight; left is how much of the rates is left that fall.
func (l *lesson) rate(s *soft, left float64) float64 {
	switch {
	case !l.k.all && s.first == nil:
		return learningRate * left
	case !l.k.all:
		return learningRate
	case s.tuned:
		return tunedRate * left
	}
	return wholeRate * left
}

// affordable is how many steps the block takes: those asked for, or, one at least, as many as what is left of the budget reaches for, with
// all blocks that follow.
func (l *lesson) affordable() int {
	n := cmp.Or(l.p.BlockSteps, DefaultSteps)
	if w := l.p.Work; w != nil && w.Limit > 0 && w.Limit-w.Spent < l.p.ahead {
		looked := passesOf(0, 0, l.p.fitting)
		n = max(1, int(((w.Limit-w.Spent)/l.p.ahead*passesOf(n, l.batch, l.p.fitting)-looked)/passesOf(1, l.batch, 0)))
	}
	return n
}

// lessonWork is the work of learning a block with all steps asked for.
func (b *Bench) lessonWork(k *block, samples int) float64 {
	return passesOf(cmp.Or(b.BlockSteps, DefaultSteps), min(lessonBatch, samples), samples) * b.shareOf(k)
}

// passesOf is how often a block is run for so many steps on batches, and to look at all samples now and then: gradients take twice what a
// forward does.
func passesOf(steps, batch, samples int) float64 { return 3 * float64(steps*batch+(looks/2+1)*samples) }

// shareOf is the part of a forward that a block is.
func (b *Bench) shareOf(k *block) (sum float64) {
	for _, l := range k.layers {
		sum += b.share(l.node)
	}
	return sum
}

// alike are the samples that fit whose inputs have the shapes of the first one.
func (l *lesson) alike() []*traveller {
	var list []*traveller
	first := l.p.list[0]
	for _, t := range l.p.list[:l.p.fitting] {
		same := true
		for i, y := range t.yf {
			same = same && slices.Equal(y.Shape, first.yf[i].Shape)
		}
		for _, v := range l.k.inputs {
			same = same && slices.Equal(t.float.kept[v].Shape, first.float.kept[v].Shape)
		}
		if same {
			list = append(list, t)
		}
	}
	return list
}

// feeds has room for all that is fed.
func (l *lesson) feeds() map[string]*tensor.Tensor {
	feeds := map[string]*tensor.Tensor{}
	for i := range l.k.exits {
		feeds[fmt.Sprint(fedFactor, i)] = tensor.New(tensor.Float32)
	}
	for name, shape := range l.shapes {
		d := tensor.Float32
		if slices.Contains(l.masks, name) {
			d = tensor.Bool
		}
		feeds[name] = tensor.New(d, shape...)
	}
	for i, s := range l.weights {
		feeds[fmt.Sprint(fedWeight, i)] = tensor.New(tensor.Float32, s.shape...)
		if b := l.biases[i]; b != nil {
			feeds[fmt.Sprint(fedBias, i)] = tensor.FromF32(b.value, b.shape...)
		}
	}
	for i, b := range l.norms {
		feeds[fmt.Sprint(fedNorm, i)] = tensor.FromF32(b.value, b.shape...)
	}
	for i := range l.scales {
		feeds[fmt.Sprint(fedScale, i)] = tensor.New(tensor.Float32)
	}
	return feeds
}

// feed writes weights and scales; biases and what normalizations have are fed as they are.
func (l *lesson) feed(feeds map[string]*tensor.Tensor, hard bool) {
	for i, s := range l.weights {
		s.weight(l.par, feeds[fmt.Sprint(fedWeight, i)].F32(), hard)
	}
	for i, s := range l.scales {
		feeds[fmt.Sprint(fedScale, i)].F32()[0] = s.scale()
	}
}

// rounded is what would be kept now.
func (l *lesson) rounded() *learnt {
	f := &learnt{}
	for i, s := range l.weights {
		w := tensor.New(tensor.Float32, s.shape...)
		s.weight(l.par, w.F32(), true)
		one := learntLayer{layer: s.layer, weight: w}
		if b := l.biases[i]; b != nil {
			one.bias = tensor.FromF32(slices.Clone(b.value), b.shape...)
		}
		f.weights = append(f.weights, one)
	}
	for _, b := range l.norms {
		f.norms = append(f.norms, tensor.FromF32(slices.Clone(b.value), b.shape...))
	}
	for _, s := range l.scales {
		if scale := s.scale(); scale != s.first && qmath.Representable(scale) {
			f.scales = append(f.scales, Chosen{Slot: s.root, Params: tqc.Params{Scale: []float32{scale}, ZeroPoint: slices.Clone(s.zero)}})
		}
	}
	return f
}

// draw chooses the samples of a step, of which elements the block reads the quantized value, and which elements of activations are
// quantized: half of them, all where the whole network is learnt.
func (l *lesson) draw(random *rand.Rand, feeds map[string]*tensor.Tensor, samples []*traveller) {
	list := random.Perm(len(samples))[:l.batch]
	for at, i := range list {
		l.put(feeds, samples[i], at, random)
	}
	for _, name := range l.masks {
		mask := feeds[name].Data.([]bool)
		chances := l.chances(random, len(mask))
		l.par.Slices(len(chances), chanceGrain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				l.mask(mask[64*i:min(64*i+64, len(mask))], chances[i])
			}
		})
	}
}

// chanceGrain is how many times 64 elements that chance chooses are worth a piece of their own.
const chanceGrain = 1 << 10

// chances are random bits for n elements, valid until the next.
func (l *lesson) chances(random *rand.Rand, n int) []uint64 {
	words := slices.Grow(l.words[:0], (n+63)/64)[:(n+63)/64]
	for i := range words {
		words[i] = random.Uint64()
	}
	l.words = words
	return words
}

// bools are those of the bits of a byte.
var bools = func() (table [256][8]bool) {
	for b := range table {
		for k := range 8 {
			table[b][k] = b>>k&1 == 1
		}
	}
	return table
}()

// mask writes where activations are quantized: as bits say, and everywhere where the whole network is learnt.
func (l *lesson) mask(dst []bool, bits uint64) {
	if l.k.all {
		bits = math.MaxUint64
	}
	for ; len(dst) >= 8; dst, bits = dst[8:], bits>>8 {
		*(*[8]bool)(dst) = bools[uint8(bits)]
	}
	copy(dst, bools[uint8(bits)][:])
}

// mix takes the elements of x into y where bits say so, without branches, which chance would mispredict.
func mix(y, x []float32, bits uint64) {
	for k, v := range x {
		a := math.Float32bits(y[k])
		y[k] = math.Float32frombits(a ^ (a^math.Float32bits(v))&-uint32(bits&1))
		bits >>= 1
	}
}

// put copies a sample to a place of the batch: what the block reads in the quantized lane, or, where random is not nil, of each element
// that or the float one.
func (l *lesson) put(feeds map[string]*tensor.Tensor, t *traveller, at int, random *rand.Rand) {
	for _, v := range l.k.inputs {
		dst := feeds[l.p.Graph.Value(v).Name]
		q, f := t.quantized.kept[v], t.float.kept[v]
		if dst.DType != tensor.Float32 || q.DType != tensor.Float32 {
			feeds[l.p.Graph.Value(v).Name] = q
			continue
		}
		n := q.Len()
		to := dst.F32()[at*n : (at+1)*n]
		copy(to, q.ToRowMajor().F32())
		if random == nil || q == f {
			continue
		}
		x, chances := f.ToRowMajor().F32(), l.chances(random, n)
		l.par.Slices(len(chances), chanceGrain, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				end := min(64*i+64, n)
				mix(to[64*i:end], x[64*i:end], chances[i])
			}
		})
	}
	for i, y := range t.yf {
		n := y.Len()
		copy(feeds[fmt.Sprint(fedTarget, i)].F32()[at*n:(at+1)*n], y.F32())
	}
}
