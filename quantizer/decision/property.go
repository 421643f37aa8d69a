package decision

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"qwb/kernels/qmath"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// Domain is where operators are to run.
type Domain string

const (
	Int  Domain = "int"
	FP32 Domain = "fp32"
	FP16 Domain = "fp16"
	BF16 Domain = "bf16"
	TF32 Domain = "tf32"
	// Weights: float, with weights that are quantized where the operator has any.
	Weights Domain = "weights"
)

// Domains lists them.
var Domains = []Domain{Int, FP32, FP16, BF16, TF32, Weights}

// domains is in the order of Domains.
var domains = []tqc.Domain{tqc.DomainInt, tqc.DomainFP32, tqc.DomainFP16, tqc.DomainBF16, tqc.DomainTF32, tqc.DomainWeights}

// Of is d as a configured graph has it. d is one of Domains.
func (d Domain) Of() tqc.Domain { return domains[slices.Index(Domains, d)] }

// DomainOf is the decision by which an operator runs in a domain, false for shapes and indices, which nothing decides about.
func DomainOf(d tqc.Domain) (Domain, bool) {
	i := slices.Index(domains, d)
	if i < 0 {
		return "", false
	}
	return Domains[i], true
}

// Properties are what decisions decide. The zero value of each means that nothing is decided.
type Properties struct {
	Domain      Domain       `json:"domain,omitempty"`
	Weights     tqc.Scheme   `json:"weights,omitzero"`
	Activations tqc.Scheme   `json:"activations,omitzero"`
	Observer    tqc.Observer `json:"observer,omitempty"`
	Scale       Scales       `json:"scale,omitempty"`
	ZeroPoint   ZeroPoints   `json:"zero_point,omitempty"`
	ReduceRange *bool        `json:"reduce_range,omitempty"`
	PerTensor   *bool        `json:"per_tensor,omitempty"`
	Divisor     *float64     `json:"divisor,omitempty"`
	Freeze      *bool        `json:"freeze,omitempty"`
	Align       string       `json:"align,omitempty"`
	Dispatcher  string       `json:"dispatcher,omitempty"`
	BorderCost  *float64     `json:"border_cost,omitempty"`
}

// Scope is what a property is about.
type Scope uint8

const (
	OfPlan       Scope = iota // the whole plan
	OfNode                    // operators
	OfWeight                  // the constants that operators multiply by; a selected operator stands for its own
	OfActivation              // all other tensors that operators read and write as numbers; a selected operator stands for its own
	OfTensor                  // one input or output, which has to be selected as such; of weights and activations alike
)

// Property is one row of the table of properties.
type Property struct {
	Name  string
	Doc   string // one line: what it does, and its values
	Scope Scope
	// Default: it may be decided for the whole plan, by a decision that selects nothing.
	Default bool

	parse func(*Properties, string) error
	text  func(*Properties) string // "" where nothing is decided
	copy  func(dst, src *Properties)
}

// properties has a row for each field of Properties, in their order.
var properties = []Property{
	{Name: "domain", Doc: "precision of operators: int (quantized), fp32, fp16, bf16, tf32, weights (fp32 with quantized weights)",
		Scope: OfNode,
		parse: func(p *Properties, s string) error { return parseDomain(s, &p.Domain) },
		text:  func(p *Properties) string { return string(p.Domain) },
		copy:  func(dst, src *Properties) { dst.Domain = src.Domain }},
	{Name: "weights", Doc: "scheme of weights; the target must support it: int8-sym-channel, int4-sym-g32, e4m3-sym-tensor, " +
		"e2m1-sym-nv16, ...", Scope: OfWeight,
		parse: func(p *Properties, s string) error { return parseScheme(s, &p.Weights) },
		text:  func(p *Properties) string { return schemeText(p.Weights) },
		copy:  func(dst, src *Properties) { dst.Weights = src.Weights }},
	{Name: "activations", Doc: "scheme of activations; the target must support it: uint8-asym-tensor, int16-sym-tensor, " +
		"int8-sym-dynamic-token, ...", Scope: OfActivation,
		parse: func(p *Properties, s string) error { return parseScheme(s, &p.Activations) },
		text:  func(p *Properties) string { return schemeText(p.Activations) },
		copy:  func(dst, src *Properties) { dst.Activations = src.Activations }},
	{Name: "observer", Doc: "calibration method: auto, minmax, percentile, percentile(0.999), kl, mse, isotone", Scope: OfActivation,
		Default: true,
		parse:   func(p *Properties, s string) error { p.Observer = tqc.Observer(s); return checkObserver(p.Observer) },
		text:    func(p *Properties) string { return string(p.Observer) },
		copy:    func(dst, src *Properties) { dst.Observer = src.Observer }},
	{Name: "scale", Doc: "scale of a tensor, or one scale per channel, separated by semicolons", Scope: OfTensor,
		parse: func(p *Properties, s string) error { return parseScales(s, &p.Scale) },
		text:  func(p *Properties) string { return listText(p.Scale, floatText) },
		copy:  func(dst, src *Properties) { dst.Scale = src.Scale }},
	{Name: "zero_point", Doc: "zero point of a tensor (0 if only scale is given)", Scope: OfTensor,
		parse: func(p *Properties, s string) error { return parseZeroPoints(s, &p.ZeroPoint) },
		text: func(p *Properties) string {
			return listText(p.ZeroPoint, func(z int32) string { return strconv.Itoa(int(z)) })
		},
		copy: func(dst, src *Properties) { dst.ZeroPoint = src.ZeroPoint }},
	{Name: "reduce_range", Doc: "weights use the reduced range of the target: true, false", Scope: OfWeight, Default: true,
		parse: func(p *Properties, s string) error { return parseBool(s, &p.ReduceRange) },
		text:  func(p *Properties) string { return boolText(p.ReduceRange) },
		copy:  func(dst, src *Properties) { dst.ReduceRange = src.ReduceRange }},
	{Name: "per_tensor", Doc: "one scale per weight tensor instead of one per channel: true, false", Scope: OfWeight, Default: true,
		parse: func(p *Properties, s string) error { return parseBool(s, &p.PerTensor) },
		text:  func(p *Properties) string { return boolText(p.PerTensor) },
		copy:  func(dst, src *Properties) { dst.PerTensor = src.PerTensor }},
	{Name: "divisor", Doc: "symmetric scale = largest magnitude / this number", Scope: OfActivation,
		parse: func(p *Properties, s string) error { return parseFloat(s, &p.Divisor) },
		text:  func(p *Properties) string { return pointerText(p.Divisor) },
		copy:  func(dst, src *Properties) { dst.Divisor = src.Divisor }},
	{Name: "freeze", Doc: "keep the current scale: true, false", Scope: OfTensor,
		parse: func(p *Properties, s string) error { return parseBool(s, &p.Freeze) },
		text:  func(p *Properties) string { return boolText(p.Freeze) },
		copy:  func(dst, src *Properties) { dst.Freeze = src.Freeze }},
	{Name: "align", Doc: "which tensors of an operator share a scale: none, output, input, large", Scope: OfNode,
		parse: func(p *Properties, s string) error { p.Align = s; return checkAlign(s) },
		text:  func(p *Properties) string { return p.Align },
		copy:  func(dst, src *Properties) { dst.Align = src.Align }},
	{Name: "dispatcher", Doc: "strategy that selects the operators to quantize", Scope: OfPlan, Default: true,
		parse: func(p *Properties, s string) error { p.Dispatcher = s; return nil },
		text:  func(p *Properties) string { return p.Dispatcher },
		copy:  func(dst, src *Properties) { dst.Dispatcher = src.Dispatcher }},
	{Name: "border_cost", Doc: "multiply-accumulates that must be quantized to pay for converting one element between float and " +
		"integer; 0: free", Scope: OfPlan, Default: true,
		parse: func(p *Properties, s string) error { return parseFloat(s, &p.BorderCost) },
		text:  func(p *Properties) string { return pointerText(p.BorderCost) },
		copy:  func(dst, src *Properties) { dst.BorderCost = src.BorderCost }},
}

// All returns the table of properties, for help texts.
func All() []Property { return slices.Clone(properties) }

func (p *Properties) has(i int) bool { return properties[i].text(p) != "" }

// Empty reports whether nothing is decided.
func (p *Properties) Empty() bool {
	for i := range properties {
		if p.has(i) {
			return false
		}
	}
	return true
}

// About reports whether p decides a property that other decides, too.
func (p *Properties) About(other *Properties) bool {
	for i := range properties {
		if p.has(i) && other.has(i) {
			return true
		}
	}
	return false
}

// Words lists what is decided as key=value.
func (p *Properties) Words() []string {
	var words []string
	for i := range properties {
		if t := properties[i].text(p); t != "" {
			words = append(words, properties[i].Name+"="+t)
		}
	}
	return words
}

// ParseProperties reads words of the form key=value, as Words writes them.
func ParseProperties(words []string) (Properties, error) {
	var p Properties
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			return p, fmt.Errorf("%q is not key=value", w)
		}
		i := slices.IndexFunc(properties, func(p Property) bool { return p.Name == key })
		switch {
		case i < 0:
			return p, fmt.Errorf("unknown property %q: one of %s", key, names())
		case p.has(i):
			return p, fmt.Errorf("%s is given twice", key)
		case value == "":
			return p, fmt.Errorf("%s= has no value", key)
		}
		if err := properties[i].parse(&p, value); err != nil {
			return p, fmt.Errorf("%s=%s: %w", key, value, err)
		}
	}
	return p, p.check()
}

func names() string {
	list := make([]string, len(properties))
	for i := range properties {
		list[i] = properties[i].Name
	}
	return strings.Join(list, ", ")
}

// check holds values to what does not hang on model or target.
func (p *Properties) check() error {
	if p.Domain != "" && !slices.Contains(Domains, p.Domain) {
		return fmt.Errorf("unknown domain %q: one of %v", p.Domain, Domains)
	}
	if p.Observer != "" {
		if err := checkObserver(p.Observer); err != nil {
			return err
		}
	}
	if p.Align != "" {
		if err := checkAlign(p.Align); err != nil {
			return err
		}
	}
	for _, s := range p.Scale {
		if !qmath.Representable(s) {
			return fmt.Errorf("scale %g", s)
		}
	}
	if n, z := len(p.Scale), len(p.ZeroPoint); n > 0 && z > 1 && n != z {
		return fmt.Errorf("%d scales and %d zero points", n, z)
	}
	for _, f := range []*float64{p.Divisor, p.BorderCost} {
		if f != nil && (!(*f >= 0) || math.IsInf(*f, 0)) {
			return fmt.Errorf("%g: not a number from 0 on", *f)
		}
	}
	return nil
}

func checkObserver(o tqc.Observer) error {
	if o == tqc.ObserverFixed || o == tqc.ObserverNone {
		return fmt.Errorf("observer %q cannot be decided: decide a scale", o)
	}
	return o.Valid()
}

func checkAlign(s string) error {
	var a target.Align
	return a.UnmarshalText([]byte(s))
}

func parseDomain(s string, d *Domain) error {
	if !slices.Contains(Domains, Domain(s)) {
		return fmt.Errorf("one of %v", Domains)
	}
	*d = Domain(s)
	return nil
}

func parseScheme(s string, to *tqc.Scheme) (err error) {
	*to, err = tqc.ParseScheme(s)
	return err
}

func schemeText(s tqc.Scheme) string {
	if s == (tqc.Scheme{}) {
		return ""
	}
	return s.String()
}

func parseBool(s string, to **bool) error {
	if s != "true" && s != "false" {
		return errors.New("true or false")
	}
	v := s == "true"
	*to = &v
	return nil
}

func boolText(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

func parseFloat(s string, to **float64) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return errors.New("a number from 0 on")
	}
	*to = &v
	return nil
}

func pointerText(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'g', -1, 64)
}

func parseScales(s string, to *Scales) error {
	for _, part := range strings.Split(s, ";") {
		v, err := strconv.ParseFloat(part, 32)
		if err != nil || !qmath.Representable(float32(v)) {
			return errors.New("positive numbers that float32 has, separated by semicolons")
		}
		*to = append(*to, float32(v))
	}
	return nil
}

func parseZeroPoints(s string, to *ZeroPoints) error {
	for _, part := range strings.Split(s, ";") {
		v, err := strconv.ParseInt(part, 10, 32)
		if err != nil {
			return errors.New("integers, separated by semicolons")
		}
		*to = append(*to, int32(v))
	}
	return nil
}

func floatText(f float32) string { return strconv.FormatFloat(float64(f), 'g', -1, 32) }

func listText[T any](list []T, text func(T) string) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = text(v)
	}
	return strings.Join(words, ";")
}
