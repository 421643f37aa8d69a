package image_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib/data/npy"
	"qwb/export/cprogram"
	"qwb/export/cprogram/image"
	"qwb/graph/tensor"
	"qwb/kernels/qmath"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
)

func lowered(t *testing.T, network, profile string) (*lower.Program, map[string]*tensor.Tensor) {
	t.Helper()
	tg := lowertest.Whole()
	g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Networks[network], tg)
	pr, err := qmath.ProfileNamed(profile)
	require.NoError(t, err)
	p, err := lower.Compile(g, set, tg, pr)
	require.NoError(t, err)
	return p, feeds
}

// memory is the files of an image in memory.
type memory map[string]*bytes.Buffer

type closer struct{ *bytes.Buffer }

func (closer) Close() error { return nil }

func (m memory) create(name string) (io.WriteCloser, error) {
	m[name] = new(bytes.Buffer)
	return closer{m[name]}, nil
}

// load reads what $readmemh reads: each byte with its address.
func (m memory) load(t *testing.T, name string, at func(address int, b byte)) {
	t.Helper()
	require.Contains(t, m, name)
	address := -1
	lines := bufio.NewScanner(bytes.NewReader(m[name].Bytes()))
	for lines.Scan() {
		text, _, _ := strings.Cut(lines.Text(), "//")
		for _, word := range strings.Fields(text) {
			if rest, ok := strings.CutPrefix(word, "@"); ok {
				n, err := strconv.ParseUint(rest, 16, 31)
				require.NoError(t, err)
				address = int(n)
				continue
			}
			b, err := strconv.ParseUint(word, 16, 8)
			require.NoError(t, err)
			require.Len(t, word, 2)
			at(address, byte(b))
			address++
		}
	}
}

var cases = []struct {
	network, profile string
	o                cprogram.Options
}{{"mobilenet", "tflite2", cprogram.Options{Inputs: true, Outputs: true}}, {"resnet", "ort", cprogram.Options{}}, {"squeezenet", "tflite2",
	cprogram.Options{}},
	{"moves", "tflite2", cprogram.Options{}}, {"matrices", "tflite2", cprogram.Options{}}, {"where", "rndnu", cprogram.Options{}}}

// A memory that begins as image.hex and takes what every step writes has, before every step, what the step reads, and in the end the
// reference's outputs. Steps write nothing outside the arena and the outputs.
func TestImageIsComplete(t *testing.T) {
	for _, c := range cases {
		p, feeds := lowered(t, c.network, c.profile)
		files := memory{}
		_, err := image.Write(context.Background(), p, c.o, feeds, 2, files.create)
		require.NoError(t, err, c.network)
		var d image.Memory
		require.NoError(t, json.Unmarshal(files["memory.json"].Bytes(), &d))
		mem := make([]byte, d.Bytes)
		files.load(t, d.Image, func(at int, b byte) { mem[at] = b })
		require.Equal(t, []string{"constants", "inputs", "outputs", "arena"}, []string{d.Regions[0].Name, d.Regions[1].Name, d.Regions[2].Name,
			d.Regions[3].Name})
		n := 0
		for _, s := range d.Steps {
			files.load(t, s.Before, func(at int, b byte) { require.Equal(t, mem[at], b, "%s: step %d reads %#x", c.network, s.ID, at); n++ })
			files.load(t, s.After, func(at int, b byte) {
				require.GreaterOrEqual(t, at, d.Regions[2].Address, "step %d writes into constants or inputs", s.ID)
				mem[at] = b
				n++
			})
			for _, a := range s.Constants {
				require.LessOrEqual(t, a.Address+a.Bytes, d.Regions[0].Bytes)
			}
		}
		require.Positive(t, n)
		outputs := p.Outputs
		if c.o.Outputs {
			outputs = p.Steps[len(p.Steps)-1].Inputs
		}
		q := *p
		q.Outputs = outputs
		e, err := program.New(&q, program.Reference, 1)
		require.NoError(t, err)
		want, err := e.Run(context.Background(), feeds, nil)
		require.NoError(t, err)
		for k, a := range d.Outputs {
			raw, err := binary.Append(nil, binary.LittleEndian, want[k].ToRowMajor().Data)
			require.NoError(t, err)
			require.Equal(t, raw, mem[a.Address:a.Address+a.Bytes], "%s: output %d", c.network, k)
		}
	}
}

// hook writes the arena after every step.
const hook = `
#include <stdint.h>
#include <stdio.h>
static void look(int n, const uint8_t *arena, size_t bytes) {
    char name[32];
    FILE *f;
    snprintf(name, sizeof name, "%d.arena", n);
    f = fopen(name, "wb");
    if (f) {
        fwrite(arena, 1, bytes, f);
        fclose(f);
    }
}
#define QWB_STEP(n) look(n, arena, QWB_ARENA_BYTES)
`

// The C program's arena is the image's: after every step it has at the image's addresses what the image says.
func TestImageIsTheArenaOfC(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler")
	}
	for _, c := range cases[1:4] {
		p, feeds := lowered(t, c.network, c.profile)
		files := memory{}
		d, err := image.Write(context.Background(), p, c.o, feeds, 2, files.create)
		require.NoError(t, err)
		dir := t.TempDir()
		var text bytes.Buffer
		_, err = cprogram.Write(&text, p, c.o)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "p.c"), text.Bytes(), 0o666))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "hook.h"), []byte(hook), 0o666))
		args := []string{}
		for i, id := range p.Inputs {
			args = append(args, fmt.Sprintf("%d.npy", i))
			f, err := os.Create(filepath.Join(dir, args[i]))
			require.NoError(t, err)
			require.NoError(t, npy.Write(f, feeds[p.Tensors[id].Name]))
			require.NoError(t, f.Close())
		}
		for i := range p.Outputs {
			args = append(args, fmt.Sprintf("out%d.npy", i))
		}
		for _, command := range [][]string{{cc, "-std=c99", "-O1", "-ffp-contract=off", "-include", "hook.h", "-o", "p", "p.c"},
			append([]string{"./p"}, args...)} {
			run := exec.Command(command[0], command[1:]...)
			run.Dir = dir
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
		arena := d.Regions[3]
		n := 0
		for _, s := range d.Steps {
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.arena", s.ID)))
			require.NoError(t, err)
			files.load(t, s.After, func(at int, b byte) {
				if at >= arena.Address {
					require.Equal(t, b, got[at-arena.Address], "%s: step %d, %#x", c.network, s.ID, at)
					n++
				}
			})
		}
		require.Positive(t, n)
	}
}

// What C cannot hold the image cannot either, and a sample of another shape is refused.
func TestImageErrors(t *testing.T) {
	p, feeds := lowered(t, "dynamic", "ort")
	_, err := image.Write(context.Background(), p, cprogram.Options{}, feeds, 1, memory{}.create)
	require.ErrorContains(t, err, "the C program needs sizes for all of its dimensions")
	p, _ = lowered(t, "mobilenet", "tflite2")
	_, err = image.Write(context.Background(), p, cprogram.Options{Prefix: "2"}, feeds, 1, memory{}.create)
	require.ErrorContains(t, err, "no name in C")
}
