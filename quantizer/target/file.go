package target

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"qwb/graph/pattern"
	"qwb/internal/arrange"
	"qwb/internal/strictyaml"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// file is a target as it stands in a YAML or JSON file. docs/targets.md explains the keys.
type file struct {
	Name          string         `json:"name" yaml:"name"`
	Doc           string         `json:"doc" yaml:"doc"`
	Placement     Placement      `json:"placement" yaml:"placement"`
	FloatOutputs  bool           `json:"float_outputs,omitempty" yaml:"float_outputs,omitempty"`
	Activation    *filePolicy    `json:"activation" yaml:"activation"`
	Weight        *filePolicy    `json:"weight" yaml:"weight"`
	Bias          *filePolicy    `json:"bias,omitempty" yaml:"bias,omitempty"` // none: stays float
	ReducedWeight []int32        `json:"reduced_weight,omitempty" yaml:"reduced_weight,omitempty"`
	Chain         int            `json:"activation_chain,omitempty" yaml:"activation_chain,omitempty"`
	Tables        int            `json:"tables,omitempty" yaml:"tables,omitempty"`
	Float         FloatUnit      `json:"float,omitempty" yaml:"float,omitempty"`
	Island        string         `json:"island,omitempty" yaml:"island,omitempty"`
	Profile       string         `json:"profile" yaml:"profile"`
	Arithmetic    *fileNumbers   `json:"arithmetic,omitempty" yaml:"arithmetic,omitempty"` // what Profile names, where it is the target's own
	Format        string         `json:"format,omitempty" yaml:"format,omitempty"`
	BorderCost    float64        `json:"border_cost,omitempty" yaml:"border_cost,omitempty"`
	Import        bool           `json:"import,omitempty" yaml:"import,omitempty"`
	Export        fileExport     `json:"export" yaml:"export"`
	Fusions       []fileFusion   `json:"fusions,omitempty" yaml:"fusions,omitempty"`
	Operators     []fileOperator `json:"operators" yaml:"operators"`
}

// filePolicy is a Config without what a target does not say, with the schemes beside it.
type filePolicy struct {
	Scheme   string   `json:"scheme" yaml:"scheme"`
	Range    []int32  `json:"range,omitempty" yaml:"range,omitempty"` // of integers; none: what tqc.Scheme.Apply gives
	Observer string   `json:"observer,omitempty" yaml:"observer,omitempty"`
	Rounding string   `json:"rounding,omitempty" yaml:"rounding,omitempty"`
	Divisor  float64  `json:"divisor,omitempty" yaml:"divisor,omitempty"`
	Others   []string `json:"others,omitempty" yaml:"others,omitempty"` // schemes that a plan may ask for instead
}

// fileNumbers is a qmath.Arithmetic.
type fileNumbers struct {
	Operators   string   `json:"operators" yaml:"operators"`
	Multiplier  int      `json:"multiplier,omitempty" yaml:"multiplier,omitempty"`
	Shift       int      `json:"shift,omitempty" yaml:"shift,omitempty"`
	Rounding    []string `json:"rounding" yaml:"rounding"`
	Quantize    string   `json:"quantize,omitempty" yaml:"quantize,omitempty"`
	Accumulator int      `json:"accumulator,omitempty" yaml:"accumulator,omitempty"`
	Bias        int      `json:"bias,omitempty" yaml:"bias,omitempty"`
	TableStep   int      `json:"table_step,omitempty" yaml:"table_step,omitempty"`
	TableRead   string   `json:"table_read,omitempty" yaml:"table_read,omitempty"`
}

type fileExport struct {
	MinOpset         int64 `json:"min_opset" yaml:"min_opset"`
	MaxOpset         int64 `json:"max_opset,omitempty" yaml:"max_opset,omitempty"`
	FloatWeights     bool  `json:"float_weights,omitempty" yaml:"float_weights,omitempty"`
	RankZero         bool  `json:"rank_zero,omitempty" yaml:"rank_zero,omitempty"`
	SignedOnly       bool  `json:"signed_only,omitempty" yaml:"signed_only,omitempty"`
	ZeroPointZero    bool  `json:"zero_point_zero,omitempty" yaml:"zero_point_zero,omitempty"`
	ChannelMultiple  int   `json:"channel_multiple,omitempty" yaml:"channel_multiple,omitempty"`
	Int8Weights      bool  `json:"int8_weights,omitempty" yaml:"int8_weights,omitempty"`
	QuantizedOutputs bool  `json:"quantized_outputs,omitempty" yaml:"quantized_outputs,omitempty"`
	OneType          bool  `json:"one_type,omitempty" yaml:"one_type,omitempty"`
	PassiveScale     bool  `json:"passive_scale,omitempty" yaml:"passive_scale,omitempty"`
	SubsampleFirst   bool  `json:"subsample_first,omitempty" yaml:"subsample_first,omitempty"`
	GuardFloat       bool  `json:"guard_float,omitempty" yaml:"guard_float,omitempty"`
	RoundsPools      bool  `json:"rounds_pools,omitempty" yaml:"rounds_pools,omitempty"`
	SlowDepthwise    bool  `json:"slow_depthwise,omitempty" yaml:"slow_depthwise,omitempty"`
	EightBits        bool  `json:"eight_bits,omitempty" yaml:"eight_bits,omitempty"`
	Open             bool  `json:"open,omitempty" yaml:"open,omitempty"`
}

type fileFusion struct {
	Family string `json:"family" yaml:"family"`
	Island bool   `json:"island,omitempty" yaml:"island,omitempty"`
}

type fileOperator struct {
	Type       string      `json:"type" yaml:"type"`
	Role       Role        `json:"role" yaml:"role"`
	Needs      []string    `json:"needs,omitempty" yaml:"needs,omitempty"`
	Align      Align       `json:"align,omitempty" yaml:"align,omitempty"`
	Overlap    bool        `json:"overlap,omitempty" yaml:"overlap,omitempty"`
	Alone      bool        `json:"alone,omitempty" yaml:"alone,omitempty"`
	FixedScale float32     `json:"fixed_scale,omitempty" yaml:"fixed_scale,omitempty"`
	Reduced    []string    `json:"reduced,omitempty" yaml:"reduced,omitempty"`
	FixedZero  bool        `json:"fixed_zero,omitempty" yaml:"fixed_zero,omitempty"`
	Finer      int         `json:"finer,omitempty" yaml:"finer,omitempty"`
	FloatEnd   bool        `json:"float_end,omitempty" yaml:"float_end,omitempty"`
	FloatNorm  bool        `json:"float_norm,omitempty" yaml:"float_norm,omitempty"`
	Signed     bool        `json:"signed_factors,omitempty" yaml:"signed_factors,omitempty"`
	SignedIn   bool        `json:"signed_input,omitempty" yaml:"signed_input,omitempty"`
	First      bool        `json:"unsigned_first,omitempty" yaml:"unsigned_first,omitempty"`
	Asked      bool        `json:"asked,omitempty" yaml:"asked,omitempty"`
	Schemes    *fileScheme `json:"schemes,omitempty" yaml:"schemes,omitempty"`
}

type fileScheme struct {
	Weight     []string `json:"weight,omitempty" yaml:"weight,omitempty"`
	Activation []string `json:"activation,omitempty" yaml:"activation,omitempty"`
	Bias       []string `json:"bias,omitempty" yaml:"bias,omitempty"`
}

// Parse reads a target from YAML (JSON is YAML too) and validates it. A key that does not exist is an error that names its line.
func Parse(text []byte) (*Target, error) {
	var f file
	if err := strictyaml.Decode(text, &f, strictyaml.Limits{What: "a platform file", Bytes: 1 << 20}); err != nil {
		return nil, fmt.Errorf("platform file: %s", strictyaml.OneLine(err))
	}
	t, err := f.target()
	if err != nil {
		return nil, fmt.Errorf("platform %q: %w", f.Name, err)
	}
	return t, t.Validate()
}

// target turns texts into what they name.
func (f *file) target() (*Target, error) {
	t := &Target{Name: f.Name, Doc: f.Doc, Placement: f.Placement, FloatOutputs: f.FloatOutputs, Chain: f.Chain, Tables: f.Tables,
		Float: f.Float, Profile: f.Profile, Format: f.Format, BorderCost: f.BorderCost, Import: f.Import, Export: Export(f.Export)}
	if f.Arithmetic != nil {
		var err error
		if t.Arithmetic, err = f.Arithmetic.arithmetic(); err != nil {
			return nil, fmt.Errorf("arithmetic: %w", err)
		}
	}
	if f.Island != "" {
		if err := t.Island.UnmarshalText([]byte(f.Island)); err != nil {
			return nil, err
		}
	}
	if f.Activation == nil || f.Weight == nil {
		return nil, fmt.Errorf("the keys activation and weight are needed: each says which scheme, range and observer")
	}
	for _, p := range []struct {
		what string
		from *filePolicy
		to   *tqc.Config
		list *[]tqc.Scheme
	}{{"activation", f.Activation, &t.Activation, &t.Schemes.Activation}, {"weight", f.Weight, &t.Weight, &t.Schemes.Weight},
		{"bias", f.Bias, &t.Bias, &t.Schemes.Bias}} {
		if p.from == nil {
			continue
		}
		if err := p.from.read(p.to, p.list); err != nil {
			return nil, fmt.Errorf("%s: %w", p.what, err)
		}
	}
	switch len(f.ReducedWeight) {
	case 0:
	case 2:
		t.ReducedWeight = [2]int32(f.ReducedWeight)
	default:
		return nil, fmt.Errorf("reduced_weight is [lowest, highest]")
	}
	for _, x := range f.Fusions {
		i := slices.IndexFunc(pattern.Families, func(p *pattern.Family) bool { return p.Name == x.Family })
		if i < 0 {
			return nil, fmt.Errorf("unknown fusion %q: one of %s", x.Family, strings.Join(familyNames(), ", "))
		}
		t.Fusions = append(t.Fusions, Fusion{Family: pattern.Families[i], Island: x.Island})
	}
	for i := range f.Operators {
		op, err := f.Operators[i].op()
		if err != nil {
			return nil, fmt.Errorf("operator %q: %w", f.Operators[i].Type, err)
		}
		t.Ops = append(t.Ops, op)
	}
	return t, nil
}

// operatorForms are the names of the families in a file, by their values.
var operatorForms = names{"float", "tflite", "tvm", "ort", "xnnpack", "power-of-two"}

// tableReads are the ways to read a table between its entries.
var tableReads = names{"line", "nearest"}

func (f *fileNumbers) arithmetic() (*qmath.Arithmetic, error) {
	a := &qmath.Arithmetic{Multiplier: f.Multiplier, Shift: f.Shift, Accumulator: f.Accumulator, Bias: f.Bias, Step: f.TableStep}
	if err := read(operatorForms, &a.Operators, "form of operators", []byte(f.Operators)); err != nil {
		return nil, err
	}
	for _, text := range f.Rounding {
		var r qmath.Rounding
		if err := r.UnmarshalText([]byte(text)); err != nil {
			return nil, err
		}
		a.Rounding = append(a.Rounding, r)
	}
	if f.Quantize != "" {
		if err := a.Quantize.UnmarshalText([]byte(f.Quantize)); err != nil {
			return nil, err
		}
	}
	if f.TableRead != "" {
		i := slices.Index(tableReads, f.TableRead)
		if i < 0 {
			return nil, fmt.Errorf("unknown way to read a table %q: one of %s", f.TableRead, strings.Join(tableReads, ", "))
		}
		a.Nearest = i == 1
	}
	return a, nil
}

// numbersOf is the opposite of fileNumbers.arithmetic.
func numbersOf(a *qmath.Arithmetic) *fileNumbers {
	if a == nil {
		return nil
	}
	f := &fileNumbers{Operators: operatorForms.name(int(a.Operators)), Multiplier: a.Multiplier, Shift: a.Shift, Accumulator: a.Accumulator,
		Bias: a.Bias, TableStep: a.Step}
	for _, r := range a.Rounding {
		f.Rounding = append(f.Rounding, r.String())
	}
	if a.Quantize != qmath.HalfEven {
		f.Quantize = a.Quantize.String()
	}
	if a.Nearest {
		f.TableRead = tableReads[1]
	}
	return f
}

func familyNames() []string {
	var list []string
	for _, f := range pattern.Families {
		list = append(list, f.Name)
	}
	return list
}

func (p *filePolicy) read(to *tqc.Config, list *[]tqc.Scheme) error {
	s, err := tqc.ParseScheme(p.Scheme)
	if err != nil {
		return err
	}
	to.Observer = tqc.Observer(p.Observer)
	if *to, err = s.Apply(*to); err != nil {
		return err
	}
	to.Divisor = p.Divisor
	if p.Rounding != "" {
		if err := to.Rounding.UnmarshalText([]byte(p.Rounding)); err != nil {
			return err
		}
	}
	switch len(p.Range) {
	case 0:
	case 2:
		to.QMin, to.QMax = p.Range[0], p.Range[1]
	default:
		return fmt.Errorf("range is [lowest, highest]")
	}
	if len(p.Others) == 0 {
		return nil
	}
	others, err := schemes(p.Others)
	*list = append([]tqc.Scheme{s}, others...)
	return err
}

func schemes(texts []string) ([]tqc.Scheme, error) {
	var list []tqc.Scheme
	for _, x := range texts {
		s, err := tqc.ParseScheme(x)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func (f *fileOperator) op() (Op, error) {
	op := Op{Type: f.Type, Role: f.Role, Align: f.Align, Overlap: f.Overlap, Alone: f.Alone, FixedScale: f.FixedScale, FixedZero: f.FixedZero,
		Finer: f.Finer, FloatEnd: f.FloatEnd, FloatNorm: f.FloatNorm, SignedFactors: f.Signed, SignedInput: f.SignedIn,
		UnsignedFirst: f.First, Asked: f.Asked}
	for _, l := range []struct {
		to   *[]Condition
		from []string
	}{{&op.Needs, f.Needs}, {&op.Reduced, f.Reduced}} {
		for _, name := range l.from {
			i := slices.IndexFunc(Conditions, func(c Condition) bool { return c.Name == name })
			if i < 0 {
				return op, fmt.Errorf("unknown condition %q: one of %s", name, strings.Join(conditionNames(Conditions), ", "))
			}
			*l.to = append(*l.to, Conditions[i])
		}
	}
	if f.Schemes == nil {
		return op, nil
	}
	var err error
	for _, l := range []struct {
		to   *[]tqc.Scheme
		from []string
	}{{&op.Schemes.Weight, f.Schemes.Weight}, {&op.Schemes.Activation, f.Schemes.Activation}, {&op.Schemes.Bias, f.Schemes.Bias}} {
		if *l.to, err = schemes(l.from); err != nil {
			return op, err
		}
	}
	return op, nil
}

func conditionNames(list []Condition) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name)
	}
	return out
}

// file is the opposite of file.target.
func (t *Target) file() *file {
	f := &file{Name: t.Name, Doc: t.Doc, Placement: t.Placement, FloatOutputs: t.FloatOutputs, Chain: t.Chain, Tables: t.Tables,
		Float: t.Float, Profile: t.Profile, BorderCost: t.BorderCost, Arithmetic: numbersOf(t.Arithmetic), Format: t.Format,
		Import: t.Import, Export: fileExport(t.Export), Activation: policy(&t.Activation, t.Schemes.Activation),
		Weight: policy(&t.Weight, t.Schemes.Weight)}
	if f.Chain == 1 {
		f.Chain = 0
	}
	if t.Island != qmath.FP32 {
		f.Island = t.Island.String()
	}
	if t.Bias.Bits != 0 {
		f.Bias = policy(&t.Bias, t.Schemes.Bias)
	}
	if t.ReducedWeight[0] != t.ReducedWeight[1] {
		f.ReducedWeight = t.ReducedWeight[:]
	}
	for _, x := range t.Fusions {
		f.Fusions = append(f.Fusions, fileFusion{Family: x.Family.Name, Island: x.Island})
	}
	for i := range t.Ops {
		op := &t.Ops[i]
		o := fileOperator{Type: op.Type, Role: op.Role, Needs: conditionNames(op.Needs), Align: op.Align, Overlap: op.Overlap, Alone: op.Alone,
			FixedScale: op.FixedScale, FixedZero: op.FixedZero, Finer: op.Finer, FloatEnd: op.FloatEnd, FloatNorm: op.FloatNorm,
			Signed: op.SignedFactors, SignedIn: op.SignedInput, First: op.UnsignedFirst, Asked: op.Asked, Reduced: conditionNames(op.Reduced)}
		if s := (fileScheme{texts(op.Schemes.Weight), texts(op.Schemes.Activation), texts(op.Schemes.Bias)}); s.Weight != nil ||
			s.Activation != nil || s.Bias != nil {
			o.Schemes = &s
		}
		f.Operators = append(f.Operators, o)
	}
	return f
}

func policy(c *tqc.Config, list []tqc.Scheme) *filePolicy {
	p := &filePolicy{Range: []int32{c.QMin, c.QMax}, Observer: string(c.Observer), Divisor: c.Divisor}
	if s, err := tqc.SchemeOf(*c); err == nil {
		p.Scheme = s.String()
	} else {
		p.Scheme = c.Policy.String() // no valid target has one
	}
	if c.Rounding != qmath.HalfEven {
		p.Rounding = c.Rounding.String()
	}
	if len(list) > 1 {
		p.Others = texts(list[1:])
	}
	return p
}

func texts(list []tqc.Scheme) []string {
	var out []string
	for _, s := range list {
		out = append(out, s.String())
	}
	return out
}

// MarshalJSON writes the keys of the file; UnmarshalJSON reads them and validates the target.
func (t *Target) MarshalJSON() ([]byte, error) { return json.Marshal(t.file()) }

func (t *Target) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var f file
	if err := d.Decode(&f); err != nil {
		return fmt.Errorf("platform: %w", err)
	}
	own, err := f.target()
	if err != nil {
		return fmt.Errorf("platform %q: %w", f.Name, err)
	}
	if err := own.Validate(); err != nil {
		return err
	}
	*t = *own
	return nil
}

// Hash is the SHA-256, in hexadecimal digits, of the canonical form: the keys of the file as JSON, in their order, the operators by
// name, without doc and without what would hold anyway. Two targets of one hash decide alike. A target that is not valid may have
// none: "".
func (t *Target) Hash() string {
	f := t.file()
	f.Doc = ""
	arrange.Stable(f.Operators, func(a, b fileOperator) int { return strings.Compare(a.Type, b.Type) })
	b, err := json.Marshal(f)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
