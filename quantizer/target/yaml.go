package target

import (
	"fmt"
	"strconv"
	"strings"
)

// YAML returns t as a file that Parse reads back: one line per operator, keys in the order of docs/targets.md, and only those that
// say something.
func (t *Target) YAML() []byte {
	f := t.file()
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, value)
		}
	}
	line("name", f.Name)
	line("doc", strconv.Quote(f.Doc))
	line("placement", f.Placement.String())
	line("float_outputs", flag(f.FloatOutputs))
	line("activation", f.Activation.flow())
	line("weight", f.Weight.flow())
	line("bias", f.Bias.flow())
	if len(f.ReducedWeight) > 0 {
		line("reduced_weight", list(f.ReducedWeight))
	}
	line("activation_chain", number(f.Chain))
	line("tables", number(f.Tables))
	if f.Float != FloatNative {
		line("float", f.Float.String())
	}
	line("island", f.Island)
	line("profile", f.Profile)
	line("arithmetic", f.Arithmetic.flow())
	line("format", f.Format)
	line("border_cost", number(f.BorderCost))
	line("import", flag(f.Import))
	line("export", f.Export.flow())
	if len(f.Fusions) > 0 {
		b.WriteString("fusions:\n")
	}
	for _, x := range f.Fusions {
		fmt.Fprintf(&b, "  - %s\n", flow("family", x.Family, "island", flag(x.Island)))
	}
	b.WriteString("operators:\n")
	for i := range f.Operators {
		fmt.Fprintf(&b, "  - %s\n", f.Operators[i].flow())
	}
	return []byte(b.String())
}

func (p *filePolicy) flow() string {
	if p == nil {
		return ""
	}
	return flow("scheme", p.Scheme, "range", list(p.Range), "observer", p.Observer, "rounding", p.Rounding, "divisor", number(p.Divisor),
		"others", list(p.Others))
}

func (a *fileNumbers) flow() string {
	if a == nil {
		return ""
	}
	return flow("operators", a.Operators, "multiplier", number(a.Multiplier), "shift", number(a.Shift), "rounding", list(a.Rounding),
		"quantize", a.Quantize,
		"accumulator", number(a.Accumulator), "bias", number(a.Bias), "table_step", number(a.TableStep), "table_read", a.TableRead)
}

func (e *fileExport) flow() string {
	return flow("min_opset", number(e.MinOpset), "max_opset", number(e.MaxOpset), "float_weights", flag(e.FloatWeights),
		"rank_zero", flag(e.RankZero), "signed_only", flag(e.SignedOnly), "zero_point_zero", flag(e.ZeroPointZero),
		"channel_multiple", number(e.ChannelMultiple), "int8_weights", flag(e.Int8Weights), "quantized_outputs", flag(e.QuantizedOutputs),
		"one_type", flag(e.OneType), "passive_scale", flag(e.PassiveScale), "subsample_first", flag(e.SubsampleFirst),
		"guard_float", flag(e.GuardFloat), "rounds_pools", flag(e.RoundsPools), "slow_depthwise",
		flag(e.SlowDepthwise), "eight_bits", flag(e.EightBits), "open", flag(e.Open))
}

func (o *fileOperator) flow() string {
	schemes, align := "", ""
	if s := o.Schemes; s != nil {
		schemes = flow("weight", list(s.Weight), "activation", list(s.Activation), "bias", list(s.Bias))
	}
	if o.Align != AlignNone {
		align = o.Align.String()
	}
	return flow("type", o.Type, "role", o.Role.String(), "needs", list(o.Needs), "align", align, "overlap", flag(o.Overlap), "alone",
		flag(o.Alone), "fixed_scale", number(o.FixedScale), "fixed_zero", flag(o.FixedZero), "finer", number(float32(o.Finer)),
		"float_end", flag(o.FloatEnd), "float_norm", flag(o.FloatNorm), "signed_factors", flag(o.Signed),
		"signed_input", flag(o.SignedIn), "unsigned_first", flag(o.First),
		"asked", flag(o.Asked), "reduced", list(o.Reduced), "schemes", schemes)
}

// flow writes keys and values in braces; those without a value are left out.
func flow(pairs ...string) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			parts = append(parts, pairs[i]+": "+pairs[i+1])
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func list[T any](l []T) string {
	if len(l) == 0 {
		return ""
	}
	return strings.ReplaceAll(fmt.Sprint(l), " ", ", ")
}

func flag(v bool) string {
	if v {
		return "true"
	}
	return ""
}

// number writes the shortest text that reads back as v, nothing for 0.
func number[T int | int64 | float32 | float64](v T) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprint(v)
}
