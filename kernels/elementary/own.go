//go:build purego || wasm

package elementary

// Exp is e^x.
func Exp(x float64) float64 { return exp(x) }

// Tanh is the hyperbolic tangent.
func Tanh(x float64) float64 { return tanh(x) }

// Sinh is the hyperbolic sine.
func Sinh(x float64) float64 { return sinh(x) }

// Cosh is the hyperbolic cosine.
func Cosh(x float64) float64 { return cosh(x) }

// Erf is the error function.
func Erf(x float64) float64 { return erf(x) }

// Erfc is 1 - Erf(x), without cancellation.
func Erfc(x float64) float64 { return erfc(x) }

// Pow is x^y.
func Pow(x, y float64) float64 { return pow(x, y) }
