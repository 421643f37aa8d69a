package graph

import "fmt"

var activationOps = []OpSpec{
	activation("Relu", 1, "max(x, 0)"),
	{Name: "Clip", Doc: "x limited to [min, max]", Since: 1, Kind: KindActivation, MinIn: 1,
		In: []Socket{SocketData, SocketFloat}, Infer: inferSame},
	activation("Sigmoid", 1, "1 / (1 + exp(-x))"),
	activation("Tanh", 1, "hyperbolic tangent"),
	activation("LeakyRelu", 1, "x, or alpha*x below 0"),
	{Name: "PRelu", Doc: "x, or slope*x below 0", Since: 1, Kind: KindActivation, MinIn: 2, Infer: inferPRelu},
	activation("Elu", 1, "x, or alpha*(exp(x)-1) below 0"),
	activation("Selu", 1, "gamma times Elu"),
	activation("Celu", 12, "max(0,x) + min(0, alpha*(exp(x/alpha)-1))"),
	activation("HardSigmoid", 1, "alpha*x + beta limited to [0, 1]"),
	activation("HardSwish", 14, "x * HardSigmoid(x) with alpha 1/6, beta 0.5"),
	activation("Swish", 24, "x * Sigmoid(alpha*x)"),
	activation("Gelu", 20, "x times the normal distribution function of x"),
	activation("Mish", 18, "x * tanh(softplus(x))"),
	activation("Softplus", 1, "log(exp(x) + 1)"),
	activation("Softsign", 1, "x / (1 + |x|)"),
	activation("ThresholdedRelu", 10, "x above alpha, else 0"),
	activation("Shrink", 9, "x moved by bias toward 0 beyond lambd, else 0"),
	microsoft(activation("Gelu", 1, "x times the normal distribution function of x")),
	microsoft(activation("QuickGelu", 1, "x * Sigmoid(alpha*x)")),
	microsoft(activation("FastGelu", 1, "Gelu by tanh, of x plus bias")),
	microsoft(activation("BiasGelu", 1, "Gelu of x plus bias")),
}

func activation(name string, since int64, doc string) OpSpec {
	return OpSpec{Name: name, Doc: doc, Since: since, Kind: KindActivation, MinIn: 1, Infer: inferSame}
}

// microsoft is an operator of ONNX Runtime's own domain.
func microsoft(s OpSpec) OpSpec {
	s.Domain = "com.microsoft"
	return s
}

// inferPRelu: the slope broadcasts to x, never the other way round. Before opset 7 it is one number, or one for each channel.
func inferPRelu(c *InferCtx) error {
	x, slope := c.Shape(0), c.Shape(1)
	if n, err := slope.Elements(); c.Opset > 0 && c.Opset < 7 && x != nil && err == nil && n >= 0 && n != 1 {
		if len(x) < 2 || x[1].Known() && x[1].N != n {
			return fmt.Errorf("slope %s is neither one number nor one for each channel of %s", slope, x)
		}
		return inferSame(c)
	}
	if s, err := Broadcast(x, slope); c.Opset >= 7 && (err != nil || len(s) > len(x)) {
		return fmt.Errorf("slope %s does not broadcast to %s", slope, x)
	}
	return inferSame(c)
}
