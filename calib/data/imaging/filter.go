package imaging

import "math"

// Filter is a resampling kernel.
type Filter struct {
	Name    string
	support float64                 // half its width, in source pixels when enlarging; 0: the nearest pixel
	weight  func(x float64) float64 // not normalised
}

// filters are those of Pillow, with its definitions (libImaging/Resample.c).
var filters = []Filter{
	{"nearest", 0, nil},
	{"box", 0.5, box},
	{"bilinear", 1, triangle},
	{"hamming", 1, hamming},
	{"bicubic", 2, cubic},
	{"lanczos", 3, lanczos},
}

// FilterByName finds a filter, "" being bilinear.
func FilterByName(name string) (Filter, bool) {
	if name == "" {
		name = "bilinear"
	}
	for _, f := range filters {
		if f.Name == name {
			return f, true
		}
	}
	return Filter{}, false
}

// The products below are rounded by explicit conversions: fused multiply-adds would give other weights on other machines.

func box(x float64) float64 {
	if x > -0.5 && x <= 0.5 {
		return 1
	}
	return 0
}

func triangle(x float64) float64 { return max(0, 1-math.Abs(x)) }

func hamming(x float64) float64 {
	x = math.Abs(x)
	switch {
	case x == 0:
		return 1
	case x >= 1:
		return 0
	}
	x *= math.Pi
	const a, b = float32(0.54), float32(0.46) // single precision in Pillow too
	return math.Sin(x) / x * (float64(a) + float64(float64(b)*math.Cos(x)))
}

// cubic is Keys' kernel with a = -0.5.
func cubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return float64(float64((float64((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
	}
	return 0
}

func lanczos(x float64) float64 {
	if -3 <= x && x < 3 {
		return sinc(x) * sinc(x/3)
	}
	return 0
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}
