package decision_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qwb/internal/longtest"
	"qwb/quantizer/decision"
)

const recipe = `# what the team agreed on
- select: type:Softmax
  domain: fp32 # why not
- {select: [first, last], activations: int16-sym-tensor}
- observer: percentile(0.999)
- select: conv1:in0
  scale: 1e-5
  optional: true
- tune: {method: [bias, gptq], budget: 5000forwards}
- gate:
    max_nsr: 1e-2
    data: images
`

func TestRecipe(t *testing.T) {
	r, err := decision.ParseRecipe("r.yaml", []byte(recipe))
	require.NoError(t, err)
	require.Len(t, r.Steps, 6)
	var lines []int
	for _, s := range r.Steps {
		lines = append(lines, s.Line)
	}
	require.Equal(t, []int{2, 4, 5, 6, 9, 10}, lines)
	require.Equal(t, decision.ByRecipe, r.Steps[0].Decision.By)
	require.Equal(t, decision.Select{"first", "last"}, r.Steps[1].Decision.Select)
	require.Equal(t, decision.Scales{1e-5}, r.Steps[3].Decision.Scale)
	require.True(t, r.Steps[3].Optional)
	require.Equal(t, decision.Words{"bias", "gptq"}, r.Steps[4].Tune.Method)
	require.Equal(t, 0.01, *r.Steps[5].Gate.MaxNSR)
	require.Equal(t, decision.Words{"images"}, r.Steps[5].Gate.Data)
}

// Every error names the line of what is wrong, in block and in flow style.
func TestRecipeErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                           "r.yaml: the recipe is empty",
		"# nothing\n":                                "r.yaml: the recipe is empty",
		"\n\na: b":                                   "r.yaml:3: a recipe is a list of steps",
		"- {select: x, domain: fp32}\n---\n- {}":     "r.yaml:3: a recipe is one document",
		"\n- scale: .nan\n  select: a:in0":           "r.yaml:2: a number is infinite or not a number",
		"- select: x\n  domian: fp32":                `r.yaml:2: unknown key "domian"`,
		"- {select: x,\n   domian: fp32}":            `r.yaml:2: unknown key "domian"`,
		"- select: x\n  domain: fp3":                 `r.yaml:2: decision: unknown domain "fp3"`,
		"- select: x\n  domain: fp32\n  domain: int": `r.yaml:3: mapping key "domain" already defined`,
		"- select: x\n  weights: int8-sym-chanel":    `r.yaml:2: scheme "int8-sym-chanel"`,
		"- domain: fp32\n  select: /(/":              "r.yaml:2: ",
		"- domain: fp32":                             "r.yaml:1: decision: domain needs a select",
		"- select: x\n  domain:\n- {}":               "r.yaml:2: there is no value",
		"- select: x\n\n  domain: [fp32]":            "r.yaml:3: domain: a string is wanted, not an array",
		"- gate: {max_nsr: low}":                     "r.yaml:1: max_nsr: a number is wanted, not a string",
		"- select: x":                                "r.yaml:1: decision: nothing is decided for x",
		"- select: x\n  scale: abc":                  "r.yaml:2: a number is wanted",
		"- select: x\n  scale: -1":                   "r.yaml:2: decision: scale -1",
		"- {}":                                       "r.yaml:1: the step is empty",
		"- a\n- b":                                   "r.yaml:1: ",
		"- [":                                        "r.yaml:1: ",
		"- a: 'b\n":                                  "r.yaml:1: ",
		"- goal: x\n  unset: [1]":                    "r.yaml:2: takes back",
		"- by: tune\n  method: bias":                 "r.yaml:2: tuning is written as tune: {method: bias}",
		"- tune: {method: bias}\n  select: x":        "r.yaml:1: a step that tunes has no other keys",
		"- tune:\n    metod: bias":                   `r.yaml:2: unknown key "metod"`,
		"- tune: {}":                                 "r.yaml:1: tune needs a method",
		"- gate:\n    data: x":                       "r.yaml:1: a gate needs a limit",
		"- gate: {max_drop: 1}":                      "r.yaml:1: max_drop needs data and labels",
		"- gate: {max_nsr: -1}":                      "r.yaml:1: max_nsr: -1 does not lie",
		"- gate: {min_cosine: 2}":                    "r.yaml:1: min_cosine: 2 does not lie",
		"- observer: kl\n- optional: true\n  observer: kl": "r.yaml:2: optional needs a select",
		"- select: a:in0\n  freeze: true":                  "r.yaml:2: a recipe can freeze only what it gives a scale",
		"- *a":                                             "r.yaml:1: ",
		"- <<: 1":                                          `r.yaml:1: unknown key "<<"`,
		"- !!str a":                                        "r.yaml:1: tag is not for recipes",
		"- ? select\n  : x":                                "r.yaml:1: unknown key",
		"- {1: x}":                                         `r.yaml:1: unknown key "1"`,
	} {
		_, err := decision.ParseRecipe("r.yaml", []byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// Anchors stand for what they name, on the line of the alias; aliases of aliases cannot fill the memory.
func TestRecipeAliases(t *testing.T) {
	r, err := decision.ParseRecipe("r.yaml", []byte("- select: &names [a, b]\n  domain: fp32\n- select: *names\n  observer: kl\n"))
	require.NoError(t, err)
	require.Equal(t, decision.Select{"a", "b"}, r.Steps[1].Decision.Select)
	_, err = decision.ParseRecipe("r.yaml", []byte("- select: &a [x]\n  domain: fp32\n- select: a\n\n  domian: *a\n"))
	require.ErrorContains(t, err, `r.yaml:5: unknown key "domian"`)
	bomb := "- &a0 [x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		prev := "*a" + string(rune('0'+i-1))
		bomb += "- &a" + string(rune('0'+i)) + " [" + strings.Repeat(prev+", ", 9) + prev + "]\n"
	}
	_, err = decision.ParseRecipe("r.yaml", []byte(bomb))
	require.ErrorContains(t, err, "r.yaml:")
}

// What would take the parser long is refused at once.
func TestRecipeDepth(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 1e5), strings.Repeat("- ", 1e5) + "x", "- " + strings.Repeat("{a: ", 1e5),
		"- " + strings.Repeat("[", 40) + strings.Repeat("]", 40)} {
		start := time.Now()
		_, err := decision.ParseRecipe("r.yaml", []byte(text))
		require.ErrorContains(t, err, "lists in each other")
		require.Less(t, time.Since(start), longtest.Hang)
	}
}

func TestRecipeRoundTrip(t *testing.T) {
	r, err := decision.ParseRecipe("r.yaml", []byte(recipe))
	require.NoError(t, err)
	no := false
	list := []decision.Decision{
		{By: decision.ByCalibrate, Properties: decision.Properties{Observer: "mse", PerTensor: &no}},
		{By: decision.ByTarget, Properties: decision.Properties{Dispatcher: "conservative"}},
	}
	for _, s := range r.Steps[:4] {
		list = append(list, s.Decision)
	}
	list[2].Evidence, list[2].After = []byte(`{"samples":3}`), "ab"
	list = append(list,
		decision.Decision{By: decision.ByCalibrate, Select: decision.Select{"a:in0"}, Properties: decision.Properties{Observer: "kl"}},
		decision.Decision{By: decision.ByUser, Select: decision.Select{"gone"}, Properties: decision.Properties{Domain: "fp32"}},
		decision.Decision{By: decision.ByTune, Method: "bias", Params: []byte(`{"budget":"5000 forwards","samples":32}`), Overlay: "sha256:ab"},
		decision.Decision{By: decision.ByTune, Select: decision.Select{"a:in0"}, Properties: decision.Properties{Observer: "kl"}},
		decision.Decision{By: decision.ByUser, Unset: []int{8}},
		decision.Decision{By: decision.BySearch, Goal: "nsr 0.01", Select: decision.Select{"true", "a,b", "123", "x y", "ü"},
			Properties: decision.Properties{Domain: "fp32"}})
	usual := decision.Properties{Observer: "mse", PerTensor: &no, Dispatcher: "conservative"}
	b, err := decision.EncodeRecipe(list, usual)
	require.NoError(t, err)
	require.Equal(t, `# a recipe: qwb calibrate MODEL --data D --platform P --recipe FILE
- observer: percentile(0.999)
- select: type:Softmax
  domain: fp32
- select: ["first","last"]
  activations: int16-sym-tensor
- select: conv1:in0
  scale: 0.00001
- tune: {method: bias, budget: "5000 forwards", samples: 32}
- goal: "nsr 0.01"
  select: ["true","a,b","123","x y","ü"]
  domain: fp32
`, string(b))
	back, err := decision.ParseRecipe("r.yaml", b)
	require.NoError(t, err)
	list = list[:2]
	for _, s := range back.Steps {
		if s.Tune == nil {
			list = append(list, s.Decision)
			continue
		}
		list = append(list, decision.Decision{By: decision.ByTune, Method: s.Tune.Method[0],
			Params: []byte(`{"budget":"5000 forwards","samples":32}`)})
	}
	again, err := decision.EncodeRecipe(list, usual)
	require.NoError(t, err)
	require.Equal(t, string(b), string(again), "a recipe of what a recipe decided is that recipe")

	b, err = decision.EncodeRecipe(list[:2], usual)
	require.NoError(t, err)
	back, err = decision.ParseRecipe("r.yaml", b)
	require.NoError(t, err, "a plan of which nothing was decided has a recipe too")
	require.Empty(t, back.Steps)
}

func FuzzParseRecipe(f *testing.F) {
	f.Add([]byte(recipe))
	f.Add([]byte("- select: &a [x, \"y\"]\n  domain: fp32\n- select: *a\n  observer: kl\n"))
	f.Add([]byte("- {select: a:in0, scale: [1, 2], zero_point: 0x3}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := decision.ParseRecipe("r.yaml", src)
		if err != nil {
			require.Contains(t, err.Error(), "r.yaml")
			return
		}
		var list []decision.Decision
		for _, s := range r.Steps {
			if s.Tune == nil && s.Gate == nil {
				list = append(list, s.Decision)
			}
		}
		b, err := decision.EncodeRecipe(list, decision.Properties{})
		if err != nil {
			return
		}
		back, err := decision.ParseRecipe("r.yaml", b)
		require.NoError(t, err, "%s", b)
		list = list[:0]
		for _, s := range back.Steps {
			list = append(list, s.Decision)
		}
		again, err := decision.EncodeRecipe(list, decision.Properties{})
		require.NoError(t, err)
		require.Equal(t, string(b), string(again))
	})
}

// A recipe that is written of tuning by several methods is one that can be read; so are those that name them in one word, as plans do.
func TestTuningBySeveralMethodsIsRead(t *testing.T) {
	for _, methods := range [][]string{{"auto"}, {"bias"}, {"bias", "gptq"}, {"equalize", "bias", "gptq"}} {
		b, err := decision.EncodeRecipe([]decision.Decision{{By: decision.ByTune, Method: strings.Join(methods, ","),
			Params: []byte(`{"samples":32}`), Overlay: "sha256:ab"}}, decision.Properties{})
		require.NoError(t, err)
		for _, text := range []string{string(b), `- tune: {method: "` + strings.Join(methods, ", ") + `"}`} {
			r, err := decision.ParseRecipe("r.yaml", []byte(text))
			require.NoError(t, err)
			require.Equal(t, decision.Words(methods), r.Steps[0].Tune.Method, text)
		}
	}
}
