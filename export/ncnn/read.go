package ncnn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/export"
	"qwb/graph/pnnx"
)

// maxKeys bounds the keys of parameters (NCNN_MAX_PARAM_COUNT).
const maxKeys = 32

// arrays says which arrays a layer loads, in order: how many elements, and whether a tag says what they are. Layers without weights have
// nil. What is not listed cannot be read: nothing in a .bin file says where the weights of a layer end.
var arrays = map[string]func(l *layer) []shape{
	"Input": nil, "Split": nil, "Noop": nil, "ReLU": nil, "Clip": nil, "Sigmoid": nil, "Mish": nil, "HardSwish": nil,
	"HardSigmoid": nil, "TanH": nil,
	"ELU": nil, "SELU": nil, "Softplus": nil, "Erf": nil, "GELU": nil, "Swish": nil, "UnaryOp": nil, "BinaryOp": nil, "Pooling": nil,
	"Softmax":   nil,
	"Reduction": nil, "Reshape": nil, "Permute": nil, "Concat": nil, "Slice": nil, "Crop": nil, "Padding": nil, "Interp": nil,
	"PixelShuffle": nil, "MatMul": nil,
	"Flatten": nil, "Dropout": nil, "Squeeze": nil, "ExpandDims": nil, "Eltwise": nil,
	"Convolution": sums, "ConvolutionDepthWise": sums, "Convolution1D": sums, "Deconvolution": sums, "DeconvolutionDepthWise": sums,
	"InnerProduct": sums,
	"MemoryData": func(l *layer) []shape {
		n := 1
		for _, key := range []int{0, 1, 11, 2} {
			if v := l.integer(key, 0); v != 0 {
				n = times(n, v)
			}
		}
		return []shape{{n: n}}
	},
	"PReLU": func(l *layer) []shape { return []shape{{n: l.integer(0, 0)}} },
	"BatchNorm": func(l *layer) []shape {
		n := l.integer(0, 0)
		return []shape{{n: n}, {n: n}, {n: n}, {n: n}}
	},
	"LayerNorm": func(l *layer) []shape {
		if n := l.integer(0, 0); l.integer(2, 1) != 0 {
			return []shape{{n: n}, {n: n}}
		}
		return nil
	},
}

// shape is what is to be read of one array.
type shape struct {
	n      int
	tagged bool
}

// times is a product that does not overflow: -1 is what no file holds.
func times(a, b int) int {
	if a < 0 || b < 0 || b > 0 && a > math.MaxInt32/b {
		return -1
	}
	return a * b
}

// sums are the arrays of layers that sum products: weights, bias, and the scales of int8_scale_term.
func sums(l *layer) []shape {
	outputs, size := l.integer(0, 0), l.integer(keySize(l), 0)
	list := []shape{{n: size, tagged: true}}
	if l.integer(keyBias(l), 0) != 0 {
		list = append(list, shape{n: outputs})
	}
	term := l.integer(keyInt8, 0)
	if term == 0 || !quantizes[l.typ] {
		return list
	}
	scales := outputs
	if l.typ == "ConvolutionDepthWise" {
		if scales = 1; term%100 == 1 {
			scales = l.integer(7, 1)
		}
	}
	list = append(list, shape{n: scales}, shape{n: 1})
	if term > 100 && l.typ != "InnerProduct" {
		list = append(list, shape{n: 1})
	}
	return list
}

// quantizes are the layers that compute on integers.
var quantizes = map[string]bool{"Convolution": true, "ConvolutionDepthWise": true, "InnerProduct": true}

func keySize(l *layer) int { return map[bool]int{true: 2, false: 6}[l.typ == "InnerProduct"] }
func keyBias(l *layer) int { return map[bool]int{true: 1, false: 5}[l.typ == "InnerProduct"] }

// parse reads a .param file. What stands in it against a rule is reported; an error means that nothing can be made of it.
func parse(text []byte, report func(rule, node, format string, a ...any)) (*net, error) {
	if pnnx.Is(text) {
		return nil, errors.New("ncnn: this is a network of PNNX, which ncnn does not run: export a plan of it for ncnn_int8")
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(lines) < 2 {
		return nil, errors.New("ncnn: a .param file has two lines before the layers")
	}
	if strings.TrimSpace(lines[0]) != magic {
		report("magic", "", "the first line is %.20q", lines[0])
	}
	var layers, blobs int
	if _, err := fmt.Sscanf(lines[1], "%d %d", &layers, &blobs); err != nil {
		return nil, fmt.Errorf("ncnn: the second line is %.40q, not the numbers of layers and blobs", lines[1])
	}
	n, tops := &net{}, 0
	for i, line := range lines[2:] {
		l, err := parseLayer(strings.Fields(line), report)
		if err != nil {
			return nil, fmt.Errorf("ncnn: line %d: %w", i+3, err)
		}
		tops += len(l.tops)
		n.layers = append(n.layers, *l)
	}
	if len(n.layers) != layers || tops > blobs {
		report("counts", "", "%d layers and %d blobs are announced, and %d and %d are there", layers, blobs, len(n.layers), tops)
	}
	return n, nil
}

func parseLayer(words []string, report func(rule, node, format string, a ...any)) (*layer, error) {
	if len(words) < 4 {
		return nil, errors.New("a layer has a type, a name and two numbers of blobs")
	}
	l := &layer{typ: words[0], name: words[1]}
	in, err := strconv.Atoi(words[2])
	out, err2 := strconv.Atoi(words[3])
	if err != nil || err2 != nil || in < 0 || out < 0 || in > len(words) || out > len(words) || 4+in+out > len(words) {
		return nil, fmt.Errorf("layer %q: %s inputs and %s outputs, and %d words", l.name, words[2], words[3], len(words)-4)
	}
	l.bottoms, l.tops = words[4:4+in], words[4+in:4+in+out]
	seen := map[int]bool{}
	for _, word := range words[4+in+out:] {
		p, err := parseParam(word)
		if err != nil {
			report("parameters", l.name, "%s: %v", word, err)
			continue
		}
		if seen[p.key] {
			report("parameters", l.name, "key %d stands twice", p.key)
		}
		seen[p.key] = true
		l.params = append(l.params, p)
	}
	return l, nil
}

// parseParam reads KEY=VALUE, in which KEY may be -23300 minus the key of an array whose length comes first.
func parseParam(word string) (p param, err error) {
	key, text, found := strings.Cut(word, "=")
	if p.key, err = strconv.Atoi(key); err != nil || !found {
		return p, errors.New("it is not key=value")
	}
	array := p.key <= -23300
	if array {
		p.key = -p.key - 23300
	}
	if p.key < 0 || p.key >= maxKeys {
		return p, fmt.Errorf("keys go to %d", maxKeys-1)
	}
	parts := strings.Split(text, ",")
	if array {
		if n, err := strconv.Atoi(parts[0]); err != nil || n != len(parts)-1 {
			return p, fmt.Errorf("%s elements, and %d are there", parts[0], len(parts)-1)
		}
		parts = parts[1:]
	}
	var whole []int
	var floats []float32
	for _, part := range parts {
		if len(part) > 15 {
			return p, errors.New("ncnn reads 15 characters of a number")
		}
		if strings.ContainsAny(part, ".eE") {
			x, err := strconv.ParseFloat(part, 32)
			if err != nil {
				return p, errors.New("it is no number")
			}
			floats = append(floats, float32(x))
			continue
		}
		x, err := strconv.ParseInt(part, 10, 32)
		if err != nil {
			return p, errors.New("it is no number")
		}
		whole = append(whole, int(x))
	}
	switch {
	case len(whole) > 0 && len(floats) > 0:
		return p, errors.New("integers and floats in one array")
	case array || len(parts) > 1:
		if p.value = whole; floats != nil {
			p.value = floats
		}
	case floats != nil:
		p.value = floats[0]
	default:
		p.value = whole[0]
	}
	return p, nil
}

// load reads the .bin file into the layers. It stops at the first layer that it does not know, or that is not there as a whole.
func (n *net) load(b []byte, report func(rule, node, format string, a ...any)) {
	at := 0
	take := func(size int) []byte {
		if size < 0 || size > len(b)-at {
			return nil
		}
		at += size
		return b[at-size : at]
	}
	for i := range n.layers {
		l := &n.layers[i]
		needs, known := arrays[l.typ]
		if !known {
			report("known-layers", l.name, "type %s", l.typ)
			return
		}
		if needs == nil {
			continue
		}
		for k, s := range needs(l) {
			w := weight{tagged: s.tagged}
			tag := uint32(0)
			if s.tagged {
				raw := take(4)
				if raw == nil {
					report("weights", l.name, "the file ends before array %d", k)
					return
				}
				tag = binary.LittleEndian.Uint32(raw)
			}
			size := times(s.n, 4)
			switch tag {
			case 0, tagFloat:
			case tagInt8:
				size = (s.n + 3) / 4 * 4
			case tagHalf:
				size = (times(s.n, 2) + 3) / 4 * 4
			default:
				report("tags", l.name, "array %d has tag %#08x", k, tag)
				return
			}
			raw := take(size)
			if raw == nil || s.n <= 0 {
				report("weights", l.name, "array %d of %d elements is not there: %d bytes are left", k, s.n, len(b)-at)
				return
			}
			switch tag {
			case tagInt8:
				w.codes = make([]int8, s.n)
				for i := range w.codes {
					w.codes[i] = int8(raw[i])
				}
			case tagHalf: // float layers only, whose numbers no rule is about
			default:
				w.floats = make([]float32, s.n)
				for i := range w.floats {
					w.floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
				}
			}
			l.weights = append(l.weights, w)
		}
	}
	if at != len(b) {
		report("weights", "", "%d bytes follow the weights of the last layer", len(b)-at)
	}
}

// rules are what ncnn insists on, or goes wrong without a word.
func rules() []export.Rule {
	const again = "export again"
	return []export.Rule{
		{Name: "magic", Doc: "the first line is " + magic, Fix: again},
		{Name: "counts", Doc: "the second line has the numbers of layers and, at least, of blobs", Fix: again},
		{Name: "names", Doc: "names of layers and of blobs are unique and have up to 255 bytes", Fix: "rename them in the model"},
		{Name: "parameters", Doc: "parameters are key=value with keys up to 31, each once, numbers of up to 15 characters", Fix: again},
		{Name: "known-layers", Doc: "every layer is one that this reader knows", Fix: "keep layers of other types out of the file"},
		{Name: "blobs", Doc: "every blob is made before it is read, and read once: copies are made by Split", Fix: again},
		{Name: "operands", Doc: "a layer reads and makes as many blobs as its type does", Fix: again},
		{Name: "numbers", Doc: "biases and other numbers of layers are numbers, not NaN or infinite", Fix: "calibrate again"},
		{Name: "tags", Doc: "weights are tagged as float, half or int8, and as int8 only where the layer has int8_scale_term", Fix: again},
		{Name: "weights", Doc: "the file .bin holds the arrays of all layers and nothing else", Fix: "keep the two files of one export together"},
		{Name: "values", Doc: "windows, strides and dilations are above 0 and fit, types and axes are some that there are", Fix: again},
		{Name: "groups", Doc: "outputs and weights of a layer are multiples of its groups", Fix: again},
		{Name: "scales", Doc: "scales are positive numbers; that of a channel of zeros may be 0",
			Fix: "calibrate again: a scale of 0 or infinity cannot be divided by"},
		{Name: "codes", Doc: "int8 weights are -127 to 127", Fix: again},
		{Name: "winograd", Doc: "weights of 3x3 convolutions of stride 1 have 6 bits (-31 to 31), or the layer has 31=64: sums of 16 bits " +
			"overflow otherwise",
			Fix: "calibrate with reduce_range, or export again, which sets 31=64"},
		{Name: "handed-on", Doc: "what a layer with int8_scale_term above 100 computes is read by convolutions on integers with its output " +
			"scale alone", Fix: again},
		{Name: "activation", Doc: "activation types are 0 to 6 and have their numbers", Fix: again},
	}
}

// examine applies the rules to a network with its weights.
func (n *net) examine(report func(rule, node, format string, a ...any)) {
	made, read, layers := map[string]*layer{}, map[string]bool{}, map[string]bool{}
	for i := range n.layers {
		l := &n.layers[i]
		if layers[l.name] || len(l.name) > maxName {
			report("names", l.name, "the name of a layer stands twice or is too long")
		}
		layers[l.name] = true
		for _, b := range l.bottoms {
			switch {
			case made[b] == nil:
				report("blobs", l.name, "it reads %q, which nothing before it makes", b)
			case read[b]:
				report("blobs", l.name, "it reads %q, which another layer reads too", b)
			}
			read[b] = true
		}
		for _, t := range l.tops {
			if made[t] != nil || len(t) > maxName {
				report("names", l.name, "the name %q of a blob stands twice or is too long", t)
			}
			made[t] = l
		}
		l.values(report)
		l.operands(report)
		l.finite(report)
		if sum := arrays[l.typ]; sum != nil && (quantizes[l.typ] || l.typ == "Convolution1D" || l.typ == "Deconvolution") {
			l.examine(report)
		}
	}
	n.handed(report)
	n.fit(report)
}

// handed applies the rule about integers that layers hand on.
func (n *net) handed(report func(rule, node, format string, a ...any)) {
	readers := map[string][]*layer{}
	for i := range n.layers {
		for _, b := range n.layers[i].bottoms {
			readers[b] = append(readers[b], &n.layers[i])
		}
	}
	for i := range n.layers {
		if l := &n.layers[i]; quantizes[l.typ] && l.integer(keyInt8, 0) > 100 {
			l.handedOn(readers, report)
		}
	}
}

// numbers are how many numbers an activation has.
var numbers = [...]int{0, 0, 1, 2, 0, 0, 2}

// examine applies the rules of a layer that sums products.
func (l *layer) examine(report func(rule, node, format string, a ...any)) {
	if group := l.integer(7, 1); group < 1 || l.integer(0, 0)%group != 0 || l.integer(keySize(l), 0)%max(l.integer(0, 0), 1) != 0 {
		report("groups", l.name, "%d outputs, %d weights, %d groups", l.integer(0, 0), l.integer(keySize(l), 0), group)
	}
	typ := l.integer(keyActivation, 0)
	count := 0
	if v, ok := l.get(keyActivation + 1); ok {
		list, _ := v.([]float32)
		count = len(list)
	}
	if typ < 0 || typ >= len(numbers) || count != numbers[typ] {
		report("activation", l.name, "type %d with %d numbers", typ, count)
	}
	if len(l.weights) == 0 {
		return
	}
	if l.integer(keyInt8, 0) == 0 {
		if l.weights[0].codes != nil {
			report("tags", l.name, "int8 weights of a float layer")
		}
		return
	}
	at := 1 + truth(l.integer(keyBias(l), 0) != 0)
	for k, w := range l.weights[min(at, len(l.weights)):] {
		for i, s := range w.floats {
			if !(s > 0) && (k > 0 || s != 0) || math.IsInf(float64(s), 0) {
				report("scales", l.name, "scale %d of array %d is %g", i, at+k, s)
				break
			}
		}
	}
	limit := int8(127)
	if winograd(l) && l.integer(keyFeatures, 0)&noWinograd == 0 {
		limit = 31
	}
	for i, q := range l.weights[0].codes {
		switch {
		case q == -128:
			report("codes", l.name, "weight %d is -128", i)
		case q > limit || q < -limit:
			report("winograd", l.name, "weight %d is %d", i, q)
		default:
			continue
		}
		break
	}
}

// handedOn follows integers through Split to their readers. A file may hold circles: every blob is looked at once.
func (l *layer) handedOn(readers map[string][]*layer, report func(rule, node, format string, a ...any)) {
	seen, blobs := map[string]bool{}, l.tops
	for len(blobs) > 0 {
		blob := blobs[0]
		blobs = blobs[1:]
		if seen[blob] {
			continue
		}
		seen[blob] = true
		for _, r := range readers[blob] {
			switch {
			case r.typ == "Split":
				blobs = append(slices.Clone(r.tops), blobs...)
			case !quantizes[r.typ] || r.typ == "InnerProduct" || r.integer(keyInt8, 0) == 0:
				report("handed-on", l.name, "%s %q reads its integers", r.typ, r.name)
			case l.last() != r.input():
				report("handed-on", l.name, "its output has scale %g, and %q expects %g", l.last(), r.name, r.input())
			}
		}
	}
}

// last is the last number of the weights of a layer: the scale of its output where it has one.
func (l *layer) last() float32 {
	if len(l.weights) == 0 || len(l.weights[len(l.weights)-1].floats) == 0 {
		return 0
	}
	w := l.weights[len(l.weights)-1].floats
	return w[len(w)-1]
}

// input is the scale of the input of a layer on integers, behind weights, bias and their scales.
func (l *layer) input() float32 {
	at := 2 + truth(l.integer(keyBias(l), 0) != 0)
	if at >= len(l.weights) || len(l.weights[at].floats) == 0 {
		return 0
	}
	return l.weights[at].floats[0]
}
