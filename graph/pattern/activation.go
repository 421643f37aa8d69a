package pattern

// The texts of activations: x is the input, y the result.

var swishForms = append(product(
	[]string{"s = Sigmoid(x)", "b = Mul(x, scalar beta)\ns = Sigmoid(b)"},
	[]string{"y = Mul(x, s)"}),
	"y = Swish(x)")

// relu6(x+3) as c, then times x and a sixth in either order; or the operator HardSigmoid with a sixth as its slope.
var hardSwishForms = append(append(product(
	[]string{"a = Add(x, 3)"},
	[]string{"c = Clip(a) {min = 0, max = 6}", "c = Clip(a, 0, 6)", "r = Relu(a)\nc = Min(r, 6)"},
	[]string{
		"m = Mul(x, c)\ny = Div(m, 6)",
		"m = Mul(x, c)\ny = Mul(m, 0.16666667)",
		"m = Div(c, 6)\ny = Mul(x, m)",
		"m = Mul(c, 0.16666667)\ny = Mul(x, m)",
		"m = Div(x, 6)\ny = Mul(m, c)",
		"m = Mul(x, 0.16666667)\ny = Mul(m, c)",
	}),
	"h = HardSigmoid(x) {alpha = 0.16666667, beta ?= 0.5}\ny = Mul(x, h)"),
	"y = HardSwish(x)")

var mishForms = append(product(
	[]string{"p = Softplus(x)", "e = Exp(x)\na = Add(e, 1)\np = Log(a)"},
	[]string{"t = Tanh(p)\ny = Mul(x, t)"}),
	"y = Mish(x)")

// x * (1 + f) / 2, multiplied in any order.
var geluTails = []string{
	"a = Add(f, 1)\nm = Mul(x, a)\ny = Mul(m, 0.5)",
	"a = Add(f, 1)\nm = Mul(x, a)\ny = Div(m, 2)",
	"a = Add(f, 1)\nm = Mul(x, 0.5)\ny = Mul(m, a)",
	"a = Add(f, 1)\nm = Mul(a, 0.5)\ny = Mul(x, m)",
	"h = Mul(f, 0.5)\nm = Add(h, 0.5)\ny = Mul(x, m)",
}

// f = erf(x / sqrt 2).
var geluErf = product(
	[]string{"d = Div(x, 1.4142135)", "d = Mul(x, 0.70710678)"},
	[]string{"f = Erf(d)"}, geluTails)

// f = tanh(sqrt(2/pi) * (x + 0.044715 x^3)).
var geluTanh = product(
	[]string{
		"p = Pow(x, 3)\nk = Mul(p, 0.044715)\ns = Add(x, k)",
		"p2 = Mul(x, x)\np = Mul(p2, x)\nk = Mul(p, 0.044715)\ns = Add(x, k)",
		"k1 = Mul(x, 0.044715)\nk2 = Mul(x, k1)\nk = Mul(x, k2)\ns = Add(x, k)",
		"p2 = Mul(x, x)\nk1 = Mul(p2, 0.044715)\nk = Mul(x, k1)\ns = Add(x, k)",
		"k1 = Mul(x, 0.044715)\nk2 = Mul(x, k1)\nk = Add(k2, 1)\ns = Mul(x, k)",
		"p2 = Mul(x, x)\nk1 = Mul(p2, 0.044715)\nk = Add(k1, 1)\ns = Mul(x, k)",
	},
	[]string{"z = Mul(s, 0.7978846)\nf = Tanh(z)"}, geluTails)

var geluOps = []string{"y = Gelu(x)", "y = com.microsoft::Gelu(x)", "y = com.microsoft::FastGelu(x)"}

// Swish is x * sigmoid(beta x). Captures: x, and beta (scalar) in the forms that have one.
var Swish = &Family{Name: "Swish", Doc: "x * sigmoid(x), also known as SiLU; with a factor beta on the sigmoid's input",
	Forms: parseAll(swishForms)}

// HardSwish is x * relu6(x+3) / 6. Captures: x.
var HardSwish = &Family{Name: "HardSwish", Doc: "x * relu6(x + 3) / 6", Forms: parseAll(hardSwishForms)}

// Mish is x * tanh(log(1 + exp x)). Captures: x.
var Mish = &Family{Name: "Mish", Doc: "x * tanh(softplus(x))", Forms: parseAll(mishForms)}

// Gelu is x * Phi(x), by the error function or its approximation by tanh. Captures: x.
var Gelu = &Family{Name: "Gelu", Doc: "x * (1 + erf(x / sqrt 2)) / 2, or the approximation by tanh",
	Forms: parseAll(geluErf, geluTanh, geluOps)}

// GeluFormula is a Gelu that is written by several operators: what a target has that computes the operator Gelu on integers, and the
// formula as one in float. Captures: x.
var GeluFormula = &Family{Name: "GeluFormula", Doc: "a Gelu written by several operators", Forms: parseAll(geluErf, geluTanh)}

// Activations are activations of one operator that are in no family of several. Captures: x.
var Activations = []*Family{
	{Name: "Relu6", Doc: "min(max(x, 0), 6)", Forms: parseAll([]string{"y = Clip(x) {min = 0, max = 6}", "y = Clip(x, 0, 6)"})},
	{Name: "Elu", Doc: "x, or alpha (exp x - 1) below 0", Forms: parseAll([]string{"y = Elu(x)"})},
	{Name: "LeakyRelu", Doc: "x, or alpha x below 0", Forms: parseAll([]string{"y = LeakyRelu(x)"})},
	{Name: "Relu", Doc: "max(x, 0)", Forms: parseAll([]string{"y = Relu(x)"})},
	{Name: "HardSigmoid", Doc: "alpha x + beta between 0 and 1", Forms: parseAll([]string{"y = HardSigmoid(x)"})},
	{Name: "Sigmoid", Doc: "1 / (1 + exp -x)", Forms: parseAll([]string{"y = Sigmoid(x)"})},
	{Name: "Softplus", Doc: "log(1 + exp x)", Forms: parseAll([]string{"y = Softplus(x)"})},
	{Name: "Tanh", Doc: "the hyperbolic tangent", Forms: parseAll([]string{"y = Tanh(x)"})},
}
