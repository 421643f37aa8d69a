package cpu

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFeatures(t *testing.T) {
	assert.Equal(t, "none", Features{}.String())
	assert.Equal(t, "avx2+fma avx512vnni", Features{AVX2: true, AVX512VNNI: true}.String())
	f := Detect()
	assert.Equal(t, f, Detect(), "detection is repeatable")
	assert.False(t, f.AVX512 && !f.AVX2, "AVX-512 implies AVX2")
	assert.False(t, f.AVX512VNNI && !f.AVX512, "its VNNI implies AVX-512")
	assert.False(t, f.AMX && (!f.AVX512VNNI || NoAMX() != ""), "tiles stand beside AVX-512 VNNI, and are granted")
	t.Logf("this processor: %v", f)
}
