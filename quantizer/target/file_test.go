package target_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

func builtin() []*target.Target {
	c := target.Builtin()
	return slices.Concat(c.All, c.Foreign)
}

// Every target of the package is what its file says.
func TestATargetIsItsFile(t *testing.T) {
	for _, tg := range builtin() {
		text := tg.YAML()
		back, err := target.Parse(text)
		require.NoError(t, err, "%s", text)
		require.Equal(t, string(text), string(back.YAML()))
		require.Equal(t, tg.Hash(), back.Hash(), tg.Name)
		require.Len(t, tg.Hash(), 64)
		require.Equal(t, tg.Activation, back.Activation)
		require.Equal(t, tg.Weight, back.Weight)
		require.Equal(t, tg.Bias, back.Bias)
		require.Equal(t, tg.Export, back.Export)
		require.Equal(t, tg.Fusions, back.Fusions)
		require.Len(t, back.Ops, len(tg.Ops))
		for i := range tg.Ops {
			a, b := tg.Ops[i], back.Ops[i]
			require.Equal(t, len(a.Needs), len(b.Needs))
			for k := range a.Needs {
				require.Equal(t, a.Needs[k].Name, b.Needs[k].Name)
			}
			require.Equal(t, names(a.Reduced), names(b.Reduced))
			a.Needs, b.Needs, a.Reduced, b.Reduced = nil, nil, nil, nil
			require.Equal(t, a, b)
		}
		js, err := json.Marshal(tg)
		require.NoError(t, err)
		var second target.Target
		require.NoError(t, json.Unmarshal(js, &second))
		require.Equal(t, tg.Hash(), second.Hash())
		third, err := target.Parse(js)
		require.NoError(t, err, "JSON is YAML")
		require.Equal(t, tg.Hash(), third.Hash())
	}
}

func names(list []target.Condition) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name)
	}
	return out
}

const small = `name: mynpu
doc: "an NPU"
placement: everywhere
activation: {scheme: uint8-asym-tensor, observer: mse, others: [int16-sym-tensor]}
weight: {scheme: int8-sym-channel, observer: minmax}
profile: onnx
border_cost: 26
export: {min_opset: 13, max_opset: 21}
operators:
  - {type: Conv, role: weighted, needs: [constant-weight]}
  - {type: Relu, role: activation, alone: true}
`

// What decides alike has one hash; what does not has another.
func TestHash(t *testing.T) {
	parse := func(text string) *target.Target {
		tg, err := target.Parse([]byte(text))
		require.NoError(t, err)
		return tg
	}
	base := parse(small)
	for _, same := range []string{
		strings.Replace(small, `"an NPU"`, "the same NPU", 1),
		strings.Replace(small, "placement: everywhere", "placement: everywhere\nactivation_chain: 1\nisland: fp32\nfloat: native", 1),
		strings.Replace(small, "observer: mse", "observer: mse, range: [0, 255], rounding: half-even", 1),
		strings.Replace(strings.Replace(small, "  - {type: Conv, role: weighted, needs: [constant-weight]}\n", "", 1)+
			"  - {type: Conv, role: weighted, needs: [constant-weight]}\n", "\n\n", "\n", 1),
	} {
		require.Equal(t, base.Hash(), parse(same).Hash(), same)
	}
	for _, other := range []string{
		strings.Replace(small, "mynpu", "yournpu", 1),
		strings.Replace(small, ", others: [int16-sym-tensor]", "", 1),
		strings.Replace(small, "border_cost: 26", "border_cost: 27", 1),
		strings.Replace(small, ", needs: [constant-weight]", "", 1),
		strings.Replace(small, "alone: true", "alone: false", 1),
	} {
		require.NotEqual(t, base.Hash(), parse(other).Hash(), other)
	}
}

// An error says what is wrong and, where the text is to blame, in which line.
func TestFilesThatAreWrong(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"border_cost: 26", "bordercost: 26", `[7:1] unknown field "bordercost"`},
		{"alone: true", "alon: true", `[11:36] unknown field "alon"`},
		{"role: weighted", "role: heavy", `unknown role "heavy": one of weighted, arithmetic, activation, passive`},
		{"everywhere", "somewhere", `unknown placement "somewhere": one of weighted-inputs, all-inputs, everywhere`},
		{"constant-weight", "constant-wait", `operator "Conv": unknown condition "constant-wait": one of copies, beta-one`},
		{"int8-sym-channel", "int9-sum-channel", `weight: scheme "int9-sum-channel": "sum" is neither sym nor asym`},
		{"observer: minmax", "observer: guess", `weight: unknown observer "guess"`},
		{"profile: onnx", "profile: npu", `npu`},
		{"type: Relu", "type: ReLU", "operator ReLU: ai.onnx has no such operator"},
		{"type: Relu", "type: Conv", "operator Conv stands twice"},
		{"role: activation", "role: weighted", "operator Relu: its role cannot be weighted"},
		{"max_opset: 21", "max_opset: 12", "opsets from 13 to 12"},
		{"min_opset: 13", "min_opset: 13, zero_point_zero: true", "uint8-asym-tensor has zero points other than 0"},
		{"min_opset: 13", "min_opset: 13, signed_only: true", "uint8-asym-tensor is unsigned"},
		{"min_opset: 13", "min_opset: 11", "opset 11: scales per channel came with 13"},
		{"mynpu", "My NPU", "a name has small letters, digits and _"},
		{"others: [int16-sym-tensor]", "others: [int16-sym-channel]", "scales of activations do not vary by channel"},
		{"others: [int16-sym-tensor]", "others: [uint8-asym-tensor]", "uint8-asym-tensor stands twice"},
		{"observer: mse", "observer: mse, range: [0, 300]", "does not fit into 8 bits"},
		{"{type: Conv,", "{type: Softmax, role: passive}\n  - {type: Conv,", "operator Softmax: it is not passive"},
		{"operators:", "fusions: [{family: Swash}]\noperators:", `unknown fusion "Swash": one of Attention, LayerNorm`},
		{"operators:", "reduced_weight: [1]\noperators:", "reduced_weight is [lowest, highest]"},
		{"operators:", "activation_chain: 99\noperators:", "a chain of 99 activations"},
		{"alone: true", "align: output", "scales of activation operators are not aligned"},
		{small, "", "platform"},
		{small, "name: [", "platform file"},
	} {
		_, err := target.Parse([]byte(strings.Replace(small, c.from, c.to, 1)))
		require.ErrorContains(t, err, c.want, "%s -> %s", c.from, c.to)
	}
}

func TestSchemesOfAnOperator(t *testing.T) {
	tg, err := target.Parse([]byte(strings.Replace(small, "needs: [constant-weight]",
		"schemes: {weight: [int4-sym-g32, int8-sym-tensor]}", 1)))
	require.NoError(t, err)
	g := parseConv(t)
	conv := g.Node(0)
	s := tg.SchemesOf(conv)
	require.Equal(t, []tqc.Scheme{{Bits: 4, Group: 32}, {Bits: 8}}, s.Weight)
	require.Equal(t, []tqc.Scheme{{Bits: 8, Unsigned: true, Asymmetric: true}, {Bits: 16}}, s.Activation)
	require.Empty(t, s.Bias, "a bias that stays float has none")
	c := tg.WeightConfig(g, 0, 1)
	require.Equal(t, []int{4, -7, 7, 1, 32}, []int{c.Bits, int(c.QMin), int(c.QMax), c.Axis, c.GroupSize})
	require.NoError(t, target.Can(s.Weight, tqc.Scheme{Bits: 8}, "weights"))
	require.EqualError(t, target.Can(s.Weight, tqc.Scheme{Bits: 8, Channel: true}, "weights"),
		"weights cannot be int8-sym-channel: one of int4-sym-g32, int8-sym-tensor")
	require.EqualError(t, target.Can(s.Bias, tqc.Scheme{Bits: 32}, "biases"), "biases stay float")
}

func TestCatalog(t *testing.T) {
	own, err := target.Parse([]byte(small))
	require.NoError(t, err)
	c, err := target.Builtin().With(own)
	require.NoError(t, err)
	found, err := c.Find("mynpu")
	require.NoError(t, err)
	require.Same(t, own, found)
	require.Contains(t, c.Names(), "mynpu")
	_, err = target.Builtin().Find("mynpu")
	require.ErrorContains(t, err, `unknown platform "mynpu": one of trt_int8, onnxruntime`)
	require.False(t, target.IsBuiltin("mynpu"))

	newer := *own
	newer.BorderCost = 1
	c, err = c.With(&newer)
	require.NoError(t, err)
	require.Len(t, c.All, len(target.Builtin().All)+1, "it takes the place of the older one")
	found, err = c.Known("mynpu")
	require.NoError(t, err)
	require.Same(t, &newer, found)

	same, err := target.Parse(target.TRTInt8.YAML())
	require.NoError(t, err)
	_, err = c.With(same)
	require.NoError(t, err, "a built-in target, written out and read")
	same.BorderCost++
	_, err = c.With(same)
	require.ErrorContains(t, err, `platform "trt_int8" is built in and this one is another`)
	newer.Ops = nil
	_, err = c.With(&newer)
	require.ErrorContains(t, err, "lists no operator")
}

// The width of tables survives the file.
func TestTablesAreWritten(t *testing.T) {
	own := *target.All[slices.IndexFunc(target.All, func(t *target.Target) bool { return t.Placement.Outputs() })]
	own.Name, own.Tables = "own", 8
	again, err := target.Parse(own.YAML())
	require.NoError(t, err)
	require.Equal(t, 8, again.Tables)
	require.Equal(t, own.Hash(), again.Hash())
	own.Tables = 16
	require.NotEqual(t, own.Hash(), again.Hash())
}
