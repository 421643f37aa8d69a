package passes

import "testing"

func TestSlopes(t *testing.T) {
	const head = `
		input x: f32[2,3,4]
		const one: f32[1] = [0.25]
		const same: f32[3,1] = [0.1, 0.1, 0.1]
		const row: f32[3,1] = [0.1, 0.2, -0.3]`
	runCases(t, Slopes, "opset 16"+head, []passCase{
		{"one slope", "y = PRelu(x, one); output y", "LeakyRelu", ""},
		{"one slope for each channel, all the same", "y = PRelu(x, same); output y", "LeakyRelu", ""},
		{"slopes that differ", "y = PRelu(x, row); output y", "PRelu", ""},
	})
}
