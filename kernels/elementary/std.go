//go:build !purego && !wasm

package elementary

import "math"

// Exp is e^x.
func Exp(x float64) float64 { return math.Exp(x) }

// Tanh is the hyperbolic tangent.
func Tanh(x float64) float64 { return math.Tanh(x) }

// Sinh is the hyperbolic sine.
func Sinh(x float64) float64 { return math.Sinh(x) }

// Cosh is the hyperbolic cosine.
func Cosh(x float64) float64 { return math.Cosh(x) }

// Erf is the error function.
func Erf(x float64) float64 { return math.Erf(x) }

// Erfc is 1 - Erf(x), without cancellation.
func Erfc(x float64) float64 { return math.Erfc(x) }

// Pow is x^y.
func Pow(x, y float64) float64 { return math.Pow(x, y) }
