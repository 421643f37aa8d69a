package target

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// Validate reports the first thing in a target that makes no sense by what package graph knows of the operators, and by itself.
func (t *Target) Validate() error {
	if err := t.validate(); err != nil {
		return fmt.Errorf("platform %q: %w", t.Name, err)
	}
	return nil
}

func (t *Target) validate() error {
	switch {
	case t.Name == "" || t.Doc == "":
		return fmt.Errorf("a platform has a name and one line of doc")
	case !validName(t.Name):
		return fmt.Errorf("a name has small letters, digits and _")
	case len(t.Ops) == 0:
		return fmt.Errorf("it lists no operator")
	case int(t.Placement) >= len(placementNames) || int(t.Float) >= len(floatNames):
		return fmt.Errorf("unknown placement or float unit")
	case !(t.BorderCost >= 0) || math.IsInf(t.BorderCost, 0):
		return fmt.Errorf("border cost %g", t.BorderCost)
	case t.Chain < 0 || t.Chain > maxChain:
		return fmt.Errorf("a chain of %d activations: 0 to %d", t.Chain, maxChain)
	case t.ReducedWeight[0] > t.ReducedWeight[1]:
		return fmt.Errorf("reduced weights from %d to %d", t.ReducedWeight[0], t.ReducedWeight[1])
	case t.Export.MinOpset < 13:
		return fmt.Errorf("opset %d: scales per channel came with 13", t.Export.MinOpset)
	case t.Export.MaxOpset < t.Export.MinOpset && !t.Export.Open:
		return fmt.Errorf("opsets from %d to %d", t.Export.MinOpset, t.Export.MaxOpset)
	case t.Export.ChannelMultiple < 0:
		return fmt.Errorf("channels in multiples of %d", t.Export.ChannelMultiple)
	}
	_, err := qmath.ProfileNamed(t.Profile)
	if t.Arithmetic != nil {
		if err == nil || t.Profile == "" {
			return fmt.Errorf("profile %q with an arithmetic of its own needs a name of its own", t.Profile)
		}
		_, err = t.Arithmetic.Profile(t.Profile)
	}
	if err != nil {
		return err
	}
	if err := t.validateTables(); err != nil {
		return err
	}
	if err := t.validatePolicies(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range t.Ops {
		op := &t.Ops[i]
		if seen[op.Type] {
			return fmt.Errorf("operator %s stands twice", op.Type)
		}
		seen[op.Type] = true
		if err := t.validateOp(op); err != nil {
			return fmt.Errorf("operator %s: %w", op.Type, err)
		}
	}
	families := map[string]bool{}
	for _, f := range t.Fusions {
		switch {
		case f.Family == nil:
			return fmt.Errorf("a fusion without a family")
		case families[f.Family.Name]:
			return fmt.Errorf("fusion %s stands twice", f.Family.Name)
		}
		families[f.Family.Name] = true
	}
	return nil
}

// maxChain bounds how many activations are fused behind an operator.
const maxChain = 8

func validName(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return s != ""
}

func (t *Target) validatePolicies() error {
	for _, p := range []struct {
		what   string
		policy *tqc.Config
		list   []tqc.Scheme
	}{{"activation", &t.Activation, t.Schemes.Activation}, {"weight", &t.Weight, t.Schemes.Weight}, {"bias", &t.Bias, t.Schemes.Bias}} {
		if p.what == "bias" && p.policy.Bits == 0 {
			if len(p.list) > 0 {
				return fmt.Errorf("schemes of a bias that stays float")
			}
			continue
		}
		if err := p.policy.Validate(); err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
		own, err := tqc.SchemeOf(*p.policy)
		if err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
		if err := validateList(p.what, p.list); err != nil {
			return err
		}
		if len(p.list) > 0 && p.list[0] != own {
			return fmt.Errorf("%s: its scheme is %s, and the first of its schemes %s", p.what, own, p.list[0])
		}
	}
	if t.Activation.Policy.Has(tqc.PerChannel) {
		return fmt.Errorf("activation: %s: scales of activations do not vary by channel", t.Activation.Policy)
	}
	for _, s := range t.Defaults().Activation {
		switch {
		case t.Export.ZeroPointZero && (s.Asymmetric || s.Unsigned):
			return fmt.Errorf("activation: %s has zero points other than 0, which export says its reader does not take", s)
		case t.Export.SignedOnly && s.Unsigned:
			return fmt.Errorf("activation: %s is unsigned, which export says its reader does not take", s)
		}
	}
	if r := t.ReducedWeight; r[0] != r[1] && (r[0] < t.Weight.QMin || r[1] > t.Weight.QMax) {
		return fmt.Errorf("reduced weights from %d to %d: weights go from %d to %d", r[0], r[1], t.Weight.QMin, t.Weight.QMax)
	}
	return nil
}

func validateList(what string, list []tqc.Scheme) error {
	for i, s := range list {
		if err := s.Valid(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if slices.Contains(list[:i], s) {
			return fmt.Errorf("%s: %s stands twice", what, s)
		}
		switch {
		case what == "activation" && s.Channel:
			return fmt.Errorf("activation: %s: scales of activations do not vary by channel", s)
		case what != "activation" && s.Dynamic:
			return fmt.Errorf("%s: %s: scales of constants are not computed at run time", what, s)
		}
	}
	return nil
}

// selects lists operators each of whose results is an element of the input, although they are more than a move.
var selects = []string{"ReduceMax", "ReduceMin"}

func (t *Target) validateOp(op *Op) error {
	if domain, name, own := strings.Cut(op.Type, "::"); own {
		plain := Op{Type: op.Type, Role: Passive}
		if domain == "" || name == "" || !reflect.DeepEqual(*op, plain) {
			return fmt.Errorf("an operator of a program's own is domain::Name, passive, and nothing else")
		}
		return nil
	}
	spec := graph.Spec("", op.Type)
	switch {
	case spec == nil:
		return fmt.Errorf("ai.onnx has no such operator that qwb knows")
	case int(op.Role) >= len(roleNames) || int(op.Align) >= len(alignNames):
		return fmt.Errorf("unknown role or alignment")
	case (op.Role == Weighted) != (spec.Kind == graph.KindComputing || spec.Kind == graph.KindRecurrent):
		return fmt.Errorf("its role cannot be %s: weighted operators are those that sum products", op.Role)
	case op.Alone && op.Role != Activation:
		return fmt.Errorf("alone is said of activations")
	case op.Align != AlignNone && op.Role != Arithmetic:
		return fmt.Errorf("scales of %s operators are not aligned", op.Role)
	case op.Align != AlignNone && !t.Placement.Outputs() && op.Align != AlignLarge:
		return fmt.Errorf("it cannot be aligned with an output where quantizers stand %s", t.Placement)
	case op.Overlap && op.Align == AlignNone:
		return fmt.Errorf("overlap without align")
	case op.FixedScale != 0 && (!qmath.Representable(op.FixedScale) || op.Role == Passive || !t.Placement.Outputs()):
		return fmt.Errorf("scale %g cannot be prescribed for its output", op.FixedScale)
	case op.FixedZero && op.FixedScale == 0:
		return fmt.Errorf("fixed_zero without fixed_scale")
	case op.Finer < 0 || op.Finer > 1<<10 || op.Finer != 0 && (op.FixedScale == 0 || op.FixedZero || op.Type != "Softmax"):
		return fmt.Errorf("finer is a number up to 1024 beside the fixed_scale of a Softmax")
	case op.FloatEnd && op.Role != Weighted && op.Role != Arithmetic:
		return fmt.Errorf("float_end is said of weighted and arithmetic operators")
	case op.FloatNorm && op.Role != Arithmetic:
		return fmt.Errorf("float_norm is said of arithmetic operators")
	case (op.SignedFactors || op.SignedInput) && op.Role != Weighted:
		return fmt.Errorf("signed_factors and signed_input are said of weighted operators")
	case (op.SignedFactors || op.SignedInput) && t.signedScheme(op) < 0:
		return fmt.Errorf("signed_factors or signed_input, but no activations are symmetric and signed")
	case op.UnsignedFirst && (op.Role != Weighted || t.Activation.QMin != 0):
		return fmt.Errorf("unsigned_first is said of weighted operators of targets whose activations are unsigned")
	case op.Role == Passive && t.Placement.Outputs() && spec.Passive == nil && !slices.Contains(selects, op.Type):
		return fmt.Errorf("it is not passive: it does not only move or select elements")
	}
	for _, list := range [][]Condition{op.Needs, op.Reduced} {
		for i, c := range list {
			if c.Holds == nil || c.Otherwise == "" || slices.ContainsFunc(list[:i], func(o Condition) bool { return o.Name == c.Name }) {
				return fmt.Errorf("condition %q is none, or stands twice", c.Name)
			}
		}
	}
	if len(op.Reduced) > 0 && (op.Role != Weighted || t.ReducedWeight[0] == t.ReducedWeight[1]) {
		return fmt.Errorf("reduced is said of weighted operators where there is a reduced_weight")
	}
	for _, s := range []struct {
		what string
		list []tqc.Scheme
	}{{"weight", op.Schemes.Weight}, {"activation", op.Schemes.Activation}, {"bias", op.Schemes.Bias}} {
		if err := validateList(s.what, s.list); err != nil {
			return err
		}
		if len(s.list) > 0 && s.what != "activation" && op.Role != Weighted {
			return fmt.Errorf("schemes of a %s: only weighted operators have one", s.what)
		}
	}
	return nil
}
