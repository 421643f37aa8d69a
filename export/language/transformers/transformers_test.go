package transformers

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/weightstest"
)

// write writes a model by a scheme, and returns the layout and the folder read again.
func write(t *testing.T, m *checkpoint.Model, scheme checkpoint.Scheme, o weights.Options, folder string) (*weights.File, error) {
	t.Helper()
	w := methods[slices.IndexFunc(methods, func(w method) bool { return w.name == scheme.Method })]
	o.Matrices = scheme.Name
	f, err := w.layout(m, o)
	if err != nil {
		return nil, err
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, weightsFile), weightstest.Bytes(t, f), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "config.json"), f.State.([]byte), 0o600))
	return f, nil
}

// wide is a shape whose rows are whole blocks of all schemes, and whose columns whole words.
func wide() checkpoint.Config {
	c := weightstest.Llama()
	c.Dim, c.Hidden, c.HeadDim = 128, 192, 32
	return c
}

// TestSchemes: every scheme is read as it was written, also from a model whose rows of queries and keys are in another order, and a
// changed byte of codes or scales is found.
func TestSchemes(t *testing.T) {
	for _, s := range checkpoint.Schemes {
		t.Run(s.Method+" "+s.Name, func(t *testing.T) {
			folder := t.TempDir()
			f, err := write(t, weightstest.Model(t, wide(), 3), s, weights.Options{}, folder)
			require.NoError(t, err)
			back, err := checkpoint.Open(folder)
			require.NoError(t, err)
			c, err := f.Compare(context.Background(), back, weights.Run{Threads: 2})
			require.NoError(t, err)
			require.Equal(t, f.Elements(), c.Weights)
			require.Equal(t, checkpoint.Packed, back.Tensor(checkpoint.Down, 1).Type)
			require.NoError(t, back.Close())

			b := weightstest.Bytes(t, f)
			at := bytes.Index(b, []byte(`model.layers.1.mlp.up_proj`))
			require.Positive(t, at)
			found := 0
			for i := len(b) - 30_000; i < len(b); i += 7_000 {
				b[i] ^= 0x5a
				require.NoError(t, os.WriteFile(filepath.Join(folder, weightsFile), b, 0o600))
				b[i] ^= 0x5a
				back, err := checkpoint.Open(folder)
				if err == nil {
					_, err = f.Compare(context.Background(), back, weights.Run{Threads: 1})
					require.NoError(t, back.Close())
				}
				if err != nil {
					found++
				}
			}
			require.Equal(t, 5, found)
		})
	}
}

// TestStaticInputs: the scale of what each matrix reads is in the file, and another one is found.
func TestStaticInputs(t *testing.T) {
	m, folder := weightstest.Model(t, wide(), 3), t.TempDir()
	scheme := *checkpoint.SchemeOf("compressed-tensors", "fp8")
	f, err := write(t, m, scheme, weights.Options{}, folder)
	require.NoError(t, err)
	matrices := 0
	for i := range f.Items {
		if it := &f.Items[i]; it.Encoding.Scheme != nil {
			matrices++
			it.Input = 0.25 * float32(matrices)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, weightsFile), weightstest.Bytes(t, f), 0o600))
	back, err := checkpoint.Open(folder)
	require.NoError(t, err)
	defer back.Close()
	_, err = f.Compare(context.Background(), back, weights.Run{Threads: 1})
	require.NoError(t, err)
	require.Equal(t, float32(0.25), back.Tensor(checkpoint.Query, 0).InputScale())
	require.Zero(t, back.Tensor(checkpoint.Embedding, -1).InputScale())
	for i := range f.Items {
		if f.Items[i].Part == (checkpoint.Part{Role: checkpoint.Up, Layer: 1}) {
			f.Items[i].Input = 3
		}
	}
	_, err = f.Compare(context.Background(), back, weights.Run{Threads: 1})
	require.ErrorContains(t, err, "of its inputs, not 3")
}

// TestFolderIsCopied: config.json of the source keeps what it says, with the quantization in place, and its tokenizer comes along.
func TestFolderIsCopied(t *testing.T) {
	from := t.TempDir()
	_, err := write(t, weightstest.Model(t, wide(), 3), checkpoint.Schemes[2], weights.Options{}, from)
	require.NoError(t, err)
	config := filepath.Join(from, "config.json")
	b, err := os.ReadFile(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, append([]byte(`{"transformers_version": "5.0", `), b[1:]...), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(from, "tokenizer.json"), []byte(`{}`), 0o600))
	m, err := checkpoint.Open(from)
	require.NoError(t, err)
	defer m.Close()

	folder := filepath.Join(t.TempDir(), "to")
	format := Formats()[0]
	in := &export.Input{Checkpoint: m, Options: export.Values{weights.Requantize.Name: "yes"}, Threads: 1,
		Progress: func(string, int) (func(int), func()) { return func(int) {}, func() {} }}
	out := format.NewOutput(folder, nil)
	defer out.Discard()
	_, err = format.Write(context.Background(), in, out)
	require.NoError(t, err)
	r, err := format.Back(context.Background(), in, out)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	_, err = out.Commit()
	require.NoError(t, err)
	b, err = os.ReadFile(filepath.Join(folder, "config.json"))
	require.NoError(t, err)
	var said map[string]any
	require.NoError(t, json.Unmarshal(b, &said))
	require.Equal(t, "5.0", said["transformers_version"])
	require.Equal(t, "compressed-tensors", said["quantization_config"].(map[string]any)["quant_method"])
	_, err = os.Stat(filepath.Join(folder, "tokenizer.json"))
	require.NoError(t, err)
}

// TestRefused: what a scheme or config.json cannot hold.
func TestRefused(t *testing.T) {
	row := func(method, name string) checkpoint.Scheme { return *checkpoint.SchemeOf(method, name) }
	c := weightstest.Llama() // rows of 96 elements, 32 rows of keys
	c.Bias = true
	_, err := write(t, weightstest.Model(t, c, 1), checkpoint.Schemes[0], weights.Options{}, t.TempDir())
	require.ErrorContains(t, err, "config.json cannot say what this model is")
	m := weightstest.Model(t, weightstest.Llama(), 1)
	_, err = write(t, m, row("compressed-tensors", "nvfp4a16"), weights.Options{Group: 32}, t.TempDir())
	require.ErrorContains(t, err, "groups of 32 elements: those of compressed-tensors nvfp4a16 have 16")
	_, err = write(t, m, row("compressed-tensors", "fp8_dynamic"), weights.Options{Search: true}, t.TempDir())
	require.ErrorContains(t, err, "is for integers, which fp8_dynamic are not")
	_, err = write(t, m, row("awq", "int4"), weights.Options{Group: 40}, t.TempDir())
	require.ErrorContains(t, err, "groups of 40 elements do not divide")
	c = weightstest.Llama()
	c.KVHeads, c.Heads, c.HeadDim, c.Dim = 1, 16, 4, 64
	_, err = write(t, weightstest.Model(t, c, 1), row("gptq", "int4"), weights.Options{}, t.TempDir())
	require.ErrorContains(t, err, "needs a multiple of 8 rows, key has 4")
}
