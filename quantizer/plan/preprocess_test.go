package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPresetFollowsTheSideOfTheInput(t *testing.T) {
	for _, c := range []struct{ side, shorter, crop int }{{224, 256, 224}, {0, 256, 224}, {96, 110, 96}, {299, 342, 299}, {128, 146, 128}} {
		p, err := Preset("imagenet-torch", c.side)
		require.NoError(t, err)
		require.Equal(t, c.shorter, p.Resize.Shorter)
		require.Equal(t, Size{c.crop, c.crop}, *p.CenterCrop)
	}
	p, err := Preset("none", 224)
	require.NoError(t, err)
	require.Equal(t, Preprocess{}, p)
	_, err = Preset("imagenet", 224)
	require.ErrorContains(t, err, "imagenet-caffe, imagenet-inception, imagenet-torch, none")
}

func TestPresetsAreNotShared(t *testing.T) {
	a, _ := Preset("imagenet-torch", 0)
	a.Mean[0] = 7
	b, _ := Preset("imagenet-torch", 0)
	require.Equal(t, 0.485, b.Mean[0])
}

func TestParsePreprocess(t *testing.T) {
	p, err := ParsePreprocess("p.yaml", []byte("resize: {size: [240, 320], filter: bicubic}\ncenter_crop: 200\n"+
		"channel_order: bgr\nlayout: nhwc\nmean: [1, 2, 3.5]\nstd: 2\n"))
	require.NoError(t, err)
	require.Equal(t, Preprocess{Resize: &Resize{Size: &Size{240, 320}, Filter: "bicubic"}, CenterCrop: &Size{200, 200},
		ChannelOrder: "bgr", Layout: "nhwc", Scale: 1, Mean: Channels{1, 2, 3.5}, Std: Channels{2}}, p)

	b, err := json.Marshal(p)
	require.NoError(t, err)
	var back Preprocess
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, p, back, "the plan keeps the content: %s", b)
}

func TestParsePreprocessErrors(t *testing.T) {
	for src, want := range map[string]string{
		"scale: 1\nmeen: [0]\n":                    `bad.yaml:2: unknown key "meen"`,
		"resize:\n  shorter: 256\n  fliter: box\n": `bad.yaml:3: unknown key "fliter"`,
		"scale: 1\nscale: 2\n":                     "bad.yaml:2: ",
		"scale: [1\n":                              "bad.yaml:1: ",
		"\nscale: one\n":                           "bad.yaml:2: ",
		"scale: 0\n":                               "bad.yaml: scale is 0",
		"scale: .nan\n":                            "not a finite float32",
		"std: [1, 0, 1]\n":                         "std: 0 cannot be divided by",
		"std: 1e-60\n":                             "cannot be divided by",
		"mean: [1, 2]\nstd: [1, 2, 3]\n":           "mean has 2 values, std has 3",
		"mean: [1, 2, 3, 4, 5]\n":                  "at most 4 channels",
		"resize: {shorter: 2, size: 3}\n":          "needs one of shorter and size",
		"resize: {filter: box}\n":                  "needs one of shorter and size",
		"resize: {shorter: 2, filter: cubic}\n":    `unknown filter "cubic"`,
		"resize: {shorter: -2}\n":                  "not in 1..",
		"resize: {size: [1, 2, 3]}\n":              "one number or [height, width]",
		"center_crop: 100000\n":                    "center_crop: 100000 is not in 1..",
		"channel_order: gbr\n":                     "neither rgb nor bgr",
		"layout: chw\n":                            "neither nchw nor nhwc",
		"mean: " + strings.Repeat("[", 10_000):     "bad.yaml",
		strings.Repeat("{mean: ", 10_000):          "bad.yaml",
		strings.Repeat("- ", 10_000):               "bad.yaml",
		// Every name stands for ten of the one before: 10^9 ones.
		"a: &a [1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
			"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\nmean: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n": "bad.yaml",
	} {
		_, err := ParsePreprocess("bad.yaml", []byte(src))
		require.ErrorContains(t, err, want, "%q", src)
		require.NotContains(t, err.Error(), "\n", "one line")
	}
	p, err := ParsePreprocess("empty.yaml", nil)
	require.NoError(t, err)
	require.Equal(t, Preprocess{Scale: 1}, p)
}

func FuzzParsePreprocess(f *testing.F) {
	f.Add([]byte("resize: {size: [240, 320], filter: bicubic}\nmean: [1, 2]\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("mean: !00 0A0"))
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := ParsePreprocess("f", src)
		if err == nil {
			require.NoError(t, p.Validate())
		}
	})
}
