package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"qwb/kernels/qmath"
)

// Checkpoints that other tools have quantized: a matrix is several arrays, whose names begin with that of its module. What they mean
// follows from their names, types and shapes, and from what quantization_config says beside them.

// hfQuantization is quantization_config of config.json.
type hfQuantization struct {
	Method  string   `json:"quant_method"`
	Bits    int      `json:"bits"`
	WBit    int      `json:"w_bit"` // of AWQ, in older files
	Group   int      `json:"group_size"`
	Form    string   `json:"checkpoint_format"` // of GPTQ
	Version string   `json:"version"`           // of AWQ
	Packing string   `json:"packing_format"`    // of AutoRound
	Blocks  []int    `json:"weight_block_size"` // of FP8
	Format  string   `json:"format"`            // of compressed-tensors
	Algo    string   `json:"quant_algo"`        // of Model Optimizer
	Cache   any      `json:"kv_cache_scheme"`
	Groups  ctGroups `json:"config_groups"`
	Sparse  struct {
		Format string `json:"format"`
	} `json:"sparsity_config"`
	Transform struct {
		Groups map[string]any `json:"config_groups"`
	} `json:"transform_config"`

	below int // how much less than zero points their stored numbers are
	awq   bool
}

type ctGroups map[string]struct {
	Weights *struct {
		Bits   int    `json:"num_bits"`
		Group  *int   `json:"group_size"`
		Type   string `json:"type"`
		Blocks []int  `json:"block_structure"`
	} `json:"weights"`
	Inputs any `json:"input_activations"`
}

// quantization reads quantization_config; nil where there is none. What is not read is an error that says why.
func (h *hfConfig) quantization() (*hfQuantization, error) {
	if len(h.Quantization) == 0 || string(h.Quantization) == "null" {
		return nil, nil
	}
	q := &hfQuantization{}
	if err := json.Unmarshal(h.Quantization, q); err != nil {
		return nil, fmt.Errorf("quantization_config: %w", err)
	}
	if err := q.resolve(); err != nil {
		return nil, fmt.Errorf("quantization_config: %w", err)
	}
	return q, nil
}

// modelOptFile says in older files of Model Optimizer what quantization_config says now.
const modelOptFile = "hf_quant_config.json"

func parseModelOpt(b []byte) (*hfQuantization, error) {
	var f struct {
		Quantization hfQuantization `json:"quantization"`
	}
	err := json.Unmarshal(b, &f)
	f.Quantization.Method = "modelopt"
	return &f.Quantization, err
}

func (q *hfQuantization) resolve() error {
	q.Bits = cmp.Or(q.Bits, q.WBit)
	method := strings.ToLower(q.Method)
	if method == "auto-round" {
		switch {
		case strings.Contains(q.Packing, "awq"):
			method = "awq"
		case strings.Contains(q.Packing, "gptq"):
			method = "gptq"
		}
	}
	switch method {
	case "gptq":
		switch q.Form {
		case "", "gptq":
			q.below = 1
		case "gptq_v2":
		default:
			return fmt.Errorf("checkpoint_format %q of gptq is not read; gptq and gptq_v2 are", q.Form)
		}
	case "awq":
		if q.awq = true; q.Version != "" && !strings.EqualFold(q.Version, "gemm") {
			return fmt.Errorf("version %q of awq is not read; gemm is", q.Version)
		}
		if q.Bits != 0 && q.Bits != 4 {
			return fmt.Errorf("awq has 4 bits, this says %d", q.Bits)
		}
	case "compressed-tensors", "modelopt", "fp8", "fbgemm_fp8":
	default:
		return fmt.Errorf("quant_method %q is not read; gptq, awq, compressed-tensors, modelopt and fp8 are. "+
			"Take the checkpoint that the weights were made from", q.Method)
	}
	switch {
	case q.Sparse.Format != "" && q.Sparse.Format != "dense":
		return fmt.Errorf("sparsity_config of format %q is not read", q.Sparse.Format)
	case len(q.Transform.Groups) > 0:
		return errors.New("transform_config: rotations that the engine computes are not read")
	}
	return nil
}

// rounds is what engines round besides weights; empty: nothing.
func (q *hfQuantization) rounds(arrays []SafeArray) string {
	for i := range arrays {
		if b := arrays[i].beside; b["input_scale"] != nil || b["input_global_scale"] != nil {
			return "inputs of matrices"
		}
	}
	for _, g := range q.Groups {
		if g.Inputs != nil {
			return "inputs of matrices"
		}
	}
	if q.Cache != nil {
		return "keys and values"
	}
	return ""
}

// codeArrays are the ends of names that hold codes, and scaleArrays those of the rest of a matrix.
var (
	codeArrays  = []string{".qweight", ".weight_packed", ".weight"}
	scaleArrays = []string{".qzeros", ".scales", ".g_idx", ".weight_scale", ".weight_scale_2", ".weight_scale_inv", ".weight_global_scale",
		".weight_zero_point", ".weight_shape", ".weight_g_idx", ".input_scale", ".input_global_scale", ".input_zero_point",
		".k_scale", ".v_scale", ".output_scale"}
)

// gathered puts the arrays of one quantized matrix together, under the name that it has in a model of floats.
func gathered(arrays []SafeArray) []SafeArray {
	beside := map[string]map[string]*SafeArray{} // by the module's name
	var out []SafeArray
	for i := range arrays {
		a := &arrays[i]
		if j := slices.IndexFunc(scaleArrays, func(s string) bool { return strings.HasSuffix(a.Name, s) }); j >= 0 {
			module := strings.TrimSuffix(a.Name, scaleArrays[j])
			if beside[module] == nil {
				beside[module] = map[string]*SafeArray{}
			}
			beside[module][scaleArrays[j][1:]] = a
			continue
		}
		out = append(out, *a)
	}
	for i := range out {
		a := &out[i]
		for _, end := range codeArrays {
			module, ok := strings.CutSuffix(a.Name, end)
			if list := beside[module]; ok && list != nil && (end != ".weight" || list["weight_scale"] != nil || list["weight_scale_inv"] != nil) {
				a.beside, a.codes, a.Name = list, a.Name, module+".weight"
				break
			}
		}
	}
	return slices.DeleteFunc(out, func(a SafeArray) bool { // older GPTQ writes a bias of zeros for every matrix
		module, ok := strings.CutSuffix(a.Name, ".bias")
		return ok && beside[module]["scales"] != nil && !slices.ContainsFunc(a.Data, func(b byte) bool { return b != 0 })
	})
}

// packed makes the matrix of rows x cols that an array and those beside it hold.
func (q *hfQuantization) packed(a *SafeArray, rows, cols int) (*packing, error) {
	p := &packing{row: 1, group: cols, stored: len(a.Data)}
	for _, b := range a.beside {
		p.stored += len(b.Data)
	}
	err := p.setCodes(q, a, rows, cols)
	if err == nil {
		err = p.setScales(q, a, rows, cols)
	}
	if err == nil {
		err = p.setZeros(q, a, rows, cols)
	}
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", a.codes, err)
	}
	return p, nil
}

// words is how many 32-bit words n numbers take.
func words(n, bits int) int { return (n*bits + 31) / 32 }

func (p *packing) setCodes(q *hfQuantization, a *SafeArray, rows, cols int) error {
	if len(a.Shape) != 2 {
		return fmt.Errorf("it has the shape %v", a.Shape)
	}
	y, x := a.Shape[0], a.Shape[1]
	p.codes = bitArray{data: a.Data, bits: 8, run: cols, word: 4, byte: 1}
	wrong := fmt.Errorf("%s%v does not hold %d x %d elements", a.DType, a.Shape, rows, cols)
	kind := strings.TrimPrefix(a.codes[strings.LastIndexByte(a.codes, '.'):], ".")
	switch {
	case kind == "qweight" && q.awq && a.DType == "I32":
		p.name = "int4"
		p.codes, p.across = bitArray{data: a.Data, bits: 4, run: 4 * x, word: 4, byte: 1, order: awqOrder}, true
		if p.values = valuesOf(4, unsignedValue); y != cols || x*8 != rows {
			return wrong
		}
	case kind == "qweight" && a.DType == "I32":
		bits, err := q.bitsOf(func(bits int) bool { return words(cols, bits) == y })
		if err != nil || x != rows {
			return errors.Join(err, wrong)
		}
		p.name = fmt.Sprint("int", bits)
		p.codes, p.values = bitArray{data: a.Data, bits: bits, run: 4, word: 4 * x, byte: 1}, valuesOf(bits, unsignedValue)
	case kind == "weight_packed" && a.DType == "I32":
		bits, err := q.bitsOf(func(bits int) bool { return words(cols, bits) == x })
		if err != nil || y != rows {
			return errors.Join(err, wrong)
		}
		p.name = fmt.Sprint("int", bits)
		p.codes = bitArray{data: a.Data, bits: bits, run: 4 * x, word: 4, byte: 1}
		p.values = valuesOf(bits, func(code int) float32 { return float32(code - 1<<(bits-1)) })
	case a.DType == "U8":
		p.name, p.codes.bits, p.codes.run = "e2m1", 4, x
		p.values = valuesOf(4, func(code int) float32 { return qmath.E2M1.Decode(uint16(code)) })
		if y != rows || 2*x != cols {
			return wrong
		}
	case y != rows || x != cols:
		return wrong
	case a.DType == "I8":
		p.name, p.values = "int8", valuesOf(8, signedValue)
	case a.DType == "F8_E4M3":
		p.name, p.values = "e4m3", valuesOf(8, func(code int) float32 { return qmath.E4M3FN.Decode(uint16(code)) })
	case a.DType == "F8_E5M2":
		p.name, p.values = "e5m2", valuesOf(8, func(code int) float32 { return qmath.E5M2.Decode(uint16(code)) })
	default:
		return fmt.Errorf("codes stored as %s are not read", a.DType)
	}
	return nil
}

// awqOrder is where AWQ puts each of eight numbers.
var awqOrder = []int{0, 4, 1, 5, 2, 6, 3, 7}

// bitsOf is the one number of bits that the configuration has and the shape of the codes allows.
func (q *hfQuantization) bitsOf(fits func(bits int) bool) (int, error) {
	var list []int
	add := func(bits int) {
		if bits >= 1 && bits <= 8 && fits(bits) && !slices.Contains(list, bits) {
			list = append(list, bits)
		}
	}
	add(q.Bits)
	for _, g := range q.Groups {
		if g.Weights != nil {
			add(g.Weights.Bits)
		}
	}
	if len(list) != 1 {
		return 0, fmt.Errorf("%d of the widths that quantization_config has fit", len(list))
	}
	return list[0], nil
}

// setScales finds out which elements share a scale, by the shape of the scales.
func (p *packing) setScales(q *hfQuantization, a *SafeArray, rows, cols int) error {
	s := cmp.Or(a.beside["scales"], a.beside["weight_scale"], a.beside["weight_scale_inv"])
	if s == nil {
		return errors.New("it has no scales")
	}
	var ok bool
	if p.scales, ok = floatTypes[s.DType]; !ok {
		return fmt.Errorf("%s: scales stored as %s are not read", s.Name, s.DType)
	}
	p.scales.data = s.Data
	shape := slices.DeleteFunc(slices.Clone(s.Shape), func(n int) bool { return n == 1 })
	if a.beside["scales"] != nil { // groups x rows
		if len(s.Shape) != 2 || s.Shape[1] != rows {
			return fmt.Errorf("%s has the shape %v for %d rows", s.Name, s.Shape, rows)
		}
		p.stride, p.step = 1, rows
		shape = []int{rows, s.Shape[0]}
	} else {
		if len(s.Shape) == 2 {
			shape = s.Shape
		} else {
			shape = append(shape, 1, 1)[:max(2, len(shape))]
		}
		if len(shape) != 2 {
			return fmt.Errorf("%s has the shape %v", s.Name, s.Shape)
		}
		p.stride, p.step = shape[1], 1
	}
	if err := p.setGroups(q, a, shape, rows, cols); err != nil {
		return fmt.Errorf("%s%v: %w", s.Name, s.Shape, err)
	}
	return p.setFactor(a)
}

// setGroups says how many rows and columns have one scale, of blocks down x along.
func (p *packing) setGroups(q *hfQuantization, a *SafeArray, blocks []int, rows, cols int) error {
	sizes, heights := q.sizes()
	fit := func(n, parts int, among []int) int {
		switch {
		case parts < 1:
			return 0
		case parts == 1:
			return n
		case n%parts == 0 && (len(among) == 0 || slices.Contains(among, n/parts)):
			return n / parts
		}
		for _, size := range among {
			if (n+size-1)/size == parts {
				return size
			}
		}
		return 0
	}
	down, along := blocks[0], blocks[1]
	p.row = 1
	if down != rows {
		p.row = fit(rows, down, heights)
	}
	if p.group = fit(cols, along, sizes); p.group == 0 || p.row == 0 {
		return fmt.Errorf("no size that quantization_config has makes so many groups of %d x %d elements", rows, cols)
	}
	if down == 1 {
		p.stride = 0
	}
	index := cmp.Or(a.beside["g_idx"], a.beside["weight_g_idx"])
	if index == nil {
		return nil
	}
	if index.DType != "I32" || len(index.Data) != 4*cols {
		return fmt.Errorf("%s is %s%v for %d columns", index.Name, index.DType, index.Shape, cols)
	}
	if err := checkIndex(index.Data, along); err != nil || rising(index.Data, p.group) {
		return err
	}
	p.index = index.Data
	return nil
}

// sizes are the groups of columns that a configuration has, and the heights of blocks.
func (q *hfQuantization) sizes() (along, down []int) {
	add := func(group int, blocks []int) {
		if group > 0 {
			along = append(along, group)
		}
		if len(blocks) == 2 && min(blocks[0], blocks[1]) > 0 {
			down, along = append(down, blocks[0]), append(along, blocks[1])
		}
	}
	add(q.Group, q.Blocks)
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		if w := q.Groups[name].Weights; w != nil {
			add(valueOr(w.Group, 0), w.Blocks)
		}
	}
	return along, down
}

// setFactor reads the scale that is one of the whole matrix: Model Optimizer multiplies with it, compressed-tensors divides by it. That of
// the inputs is kept where it is one number.
func (p *packing) setFactor(a *SafeArray) error {
	if in := a.beside["input_scale"]; in != nil {
		if n, ok := floatTypes[in.DType]; ok && len(in.Data) == n.size {
			n.data = in.Data
			p.input = n.at(0)
		}
	}
	times, by := a.beside["weight_scale_2"], a.beside["weight_global_scale"]
	s := cmp.Or(times, by)
	if s == nil {
		return nil
	}
	n, ok := floatTypes[s.DType]
	if n.data = s.Data; !ok || len(s.Data) != n.size {
		return fmt.Errorf("%s is %s%v, not one number", s.Name, s.DType, s.Shape)
	}
	g := n.at(0)
	if !(g > 0) || g > 1e38 {
		return fmt.Errorf("%s is %g", s.Name, g)
	}
	if p.factor = func(scale float32) float32 { return scale * g }; times == nil {
		p.factor = func(scale float32) float32 { return scale / g }
	}
	return nil
}

func (p *packing) setZeros(q *hfQuantization, a *SafeArray, rows, cols int) error {
	z := cmp.Or(a.beside["qzeros"], a.beside["weight_zero_point"])
	if z == nil {
		if a.beside["scales"] != nil {
			return errors.New("it has no zero points (qzeros)")
		}
		return nil
	}
	groups, bits := (cols+p.group-1)/p.group, p.codes.bits
	if s := a.beside["scales"]; s != nil {
		groups = s.Shape[0]
	}
	var want []int
	switch {
	case a.beside["scales"] != nil:
		p.zeros = &bitArray{data: z.Data, bits: bits, run: 4 * words(rows, bits), word: 4, byte: 1, order: p.codes.order}
		want, p.below = []int{groups, words(rows, bits)}, q.below
	case strings.HasSuffix(a.codes, ".weight_packed") && z.DType == "I32":
		p.zeros = &bitArray{data: z.Data, bits: bits, run: 4, word: 4 * groups, byte: 1}
		want = []int{words(rows, bits), groups}
	case p.row != 1 || p.stride == 0: // of blocks, or of the whole matrix
		if slices.ContainsFunc(z.Data, func(b byte) bool { return b != 0 }) {
			return fmt.Errorf("%s: zero points of blocks are not read", z.Name)
		}
		return nil
	default:
		p.zeros = &bitArray{data: z.Data, bits: 8, run: 1, word: 4 * groups, byte: groups}
		if want = []int{rows, groups}; z.DType != a.DType || len(z.Data) != rows*groups {
			return fmt.Errorf("%s is %s%v; %s%v is needed", z.Name, z.DType, z.Shape, a.DType, want)
		}
		return nil
	}
	if z.DType != "I32" || !slices.Equal(z.Shape, want) {
		return fmt.Errorf("%s is %s%v; I32%v is needed", z.Name, z.DType, z.Shape, want)
	}
	return nil
}
