package cprogram_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export/cprogram"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/quantizer/lower"
	"qwb/quantizer/lower/lowertest"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
)

// network is a small network under a profile, on integers to its end.
func network(t *testing.T, name, profile string) (*lower.Program, map[string]*tensor.Tensor) {
	t.Helper()
	tg := lowertest.Whole()
	g, set, feeds := lowertest.ConfiguredFor(t, lowertest.Networks[name], tg)
	p, err := lowered(g, set, tg, profile)
	require.NoError(t, err)
	return p, feeds
}

// source writes p as C below dir.
func source(t *testing.T, dir, name string, p *lower.Program, o cprogram.Options) {
	t.Helper()
	var text bytes.Buffer
	_, err := cprogram.Write(&text, p, o)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o666))
}

// Without main a program includes only what a freestanding compiler has and calls nothing but memcpy and memset, which compilers make of
// loops, and what compilers have for their own arithmetic (__divdi3 and others); on 32 bits too. stdio.h and string.h are not to be found
// here.
func TestFreestanding(t *testing.T) {
	cc := compiler(t)
	include, err := exec.Command(cc, "-print-file-name=include").Output()
	require.NoError(t, err)
	headers := strings.TrimSpace(string(include))
	if _, err := os.Stat(filepath.Join(headers, "stdint.h")); err != nil {
		t.Skip("the compiler's own headers are not where gcc has them")
	}
	for _, c := range []struct{ network, profile string }{{"mobilenet", "tflite2"}, {"windows", "ort"}, {"residual", "trt"},
		{"moves", "tflite2"}, {"where", "rndnu"}} {
		dir := t.TempDir()
		p, feeds := network(t, c.network, c.profile)
		source(t, dir, "a.c", p, cprogram.Options{Sizes: bound(p.Graph, feeds)})
		widths := []string{"-m64", "-m32"}
		if runtime.GOARCH != "amd64" {
			widths = []string{"-O2"}
		}
		for _, width := range widths {
			object := filepath.Join(dir, "a.o")
			flags := append(append([]string(nil), strict...), width, "-ffreestanding", "-fno-pic", "-nostdinc", "-isystem", headers, "-DQWB_NO_MAIN",
				"-c", "-o", object, filepath.Join(dir, "a.c"))
			if width == "-m32" {
				flags = append(flags, "-msse2", "-mfpmath=sse")
			}
			out, err := exec.Command(cc, flags...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			f, err := elf.Open(object)
			if err != nil {
				t.Skip("does not apply: another format of objects: " + err.Error())
			}
			symbols, err := f.Symbols()
			require.NoError(t, err)
			require.NoError(t, f.Close())
			visible := map[string]bool{}
			for _, s := range symbols {
				name := strings.TrimPrefix(s.Name, "_GLOBAL_OFFSET_TABLE_")
				switch {
				case s.Section == elf.SHN_UNDEF && name != "":
					require.True(t, name == "memcpy" || name == "memset" || strings.HasPrefix(name, "__"), "%s %s needs %s", c.network, width, name)
				case elf.ST_BIND(s.Info) == elf.STB_GLOBAL && s.Section != elf.SHN_UNDEF:
					visible[name] = true
				}
			}
			require.Equal(t, map[string]bool{"qwb_run": true, "qwb_run_in": true}, visible)
		}
	}
}

// acle is what dot products of Arm's DSP extension use, in plain C.
const acle = `
#include <stdint.h>
static inline int32_t __sxtb16(int32_t x) {
    const uint32_t low = (uint16_t)(int8_t)x, high = (uint16_t)(int8_t)(x >> 16);
    return (int32_t)(high << 16 | low);
}
static inline int32_t __smlad(int32_t x, int32_t y, int32_t sum) {
    return sum + (int16_t)x * (int16_t)y + (int16_t)(x >> 16) * (int16_t)(y >> 16);
}
`

// The dot products for processors of Arm, with their instructions in plain C: the same integers, at odd lengths and addresses too. What
// TestTrainedNetworks compiles for this processor examples/engines/c_program.py runs on an emulated Cortex-M4.
func TestDSP(t *testing.T) {
	compiler(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "arm_acle.h"), []byte(acle), 0o666))
	flags := append(append([]string(nil), sanitized...), "-D__ARM_FEATURE_DSP=1", "-isystem", dir)
	for _, name := range []string{"mobilenet", "squeezenet"} {
		p, feeds := network(t, name, "tflite2")
		var text bytes.Buffer
		_, err := cprogram.Write(&text, p, cprogram.Options{})
		require.NoError(t, err)
		require.Contains(t, text.String(), "dot_columns_i16_i8_i32(column")
		require.Positive(t, compared(t, p, feeds, nil, flags))
	}
}

// driver runs two networks at once, in threads with an arena each, and writes what every thread got. The second is integers on both sides.
const driver = `
#define ONE_INTERFACE_ONLY
#include "one.c"
#define TWO_INTERFACE_ONLY
#include "two.c"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct job {
    void (*run)(void *arena, const void *const *in, void *const *out);
    size_t arena, in, out;
    const char *from, *to;
};

static void *work(void *what) {
    const struct job *j = what;
    char *in = malloc(j->in), *out = malloc(j->out), *arena = malloc(j->arena + 1);
    const void *ins[1];
    void *outs[1];
    FILE *f = fopen(j->from, "rb");
    if (!f || fread(in, 1, j->in, f) != j->in)
        exit(1);
    fclose(f);
    ins[0] = in, outs[0] = out;
    for (int i = 0; i < 20; i++)
        j->run(arena, ins, outs);
    f = fopen(j->to, "wb");
    if (!f || fwrite(out, 1, j->out, f) != j->out || fclose(f))
        exit(1);
    free(in), free(out), free(arena);
    return NULL;
}

int main(void) {
    struct job jobs[4] = {{one_run_in, ONE_ARENA_BYTES, ONE_INPUT_0_BYTES, ONE_OUTPUT_0_BYTES, "one.in", "0.out"},
                          {two_run_in, TWO_ARENA_BYTES, TWO_INPUT_0_BYTES, TWO_OUTPUT_0_BYTES, "two.in", "1.out"},
                          {one_run_in, ONE_ARENA_BYTES, ONE_INPUT_0_BYTES, ONE_OUTPUT_0_BYTES, "one.in", "2.out"},
                          {two_run_in, TWO_ARENA_BYTES, TWO_INPUT_0_BYTES, TWO_OUTPUT_0_BYTES, "two.in", "3.out"}};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, work, &jobs[i]))
            return 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d %a\n", TWO_INPUT_0_ZERO_POINT, (double)TWO_INPUT_0_SCALE);
    return 0;
}
`

// raw is the elements of a tensor as they lie in memory.
func raw(t *testing.T, x *tensor.Tensor) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, x.ToRowMajor().Data)
	require.NoError(t, err)
	return b
}

// integers is p with integers at its borders, and the integers of its input for feeds: what Inputs and Outputs of another type make.
func integers(t *testing.T, p *lower.Program, feeds map[string]*tensor.Tensor) (q *lower.Program, codes map[string]*tensor.Tensor) {
	t.Helper()
	first, last := &p.Steps[0], &p.Steps[len(p.Steps)-1]
	require.IsType(t, &lower.Quantize{}, first.Op)
	require.IsType(t, &lower.Dequantize{}, last.Op)
	all := *p
	all.Outputs = first.Outputs
	e, err := program.New(&all, program.Reference, 1)
	require.NoError(t, err)
	outs, err := e.Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	q = new(lower.Program)
	*q = *p
	q.Inputs, q.Outputs = first.Outputs, last.Inputs
	return q, map[string]*tensor.Tensor{p.Tensors[first.Outputs[0]].Name: outs[0]}
}

// Two networks in one program, float and integers at their borders: names do not meet, and threads with arenas of their own do not disturb
// each other. What they answer is what each answers alone.
func TestTwoNetworksInOneProgram(t *testing.T) {
	cc := compiler(t)
	dir := t.TempDir()
	one, feeds := network(t, "mobilenet", "ort")
	two, more := network(t, "mobilenet", "tflite2")
	source(t, dir, "one.c", one, cprogram.Options{Prefix: "one"})
	source(t, dir, "two.c", two, cprogram.Options{Prefix: "two", Inputs: true, Outputs: true})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.c"), []byte(driver), 0o666))
	flags := append(append([]string(nil), sanitized...), "-pthread", "-DONE_NO_MAIN", "-DTWO_NO_MAIN", "-DONE_NO_ARENA", "-o", "both", "one.c",
		"two.c", "main.c")
	command := exec.Command(cc, flags...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)

	want := [2][]byte{}
	reference, err := program.New(one, program.Reference, 1)
	require.NoError(t, err)
	answer, err := reference.Run(context.Background(), feeds, nil)
	require.NoError(t, err)
	want[0] = raw(t, answer[0])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "one.in"), raw(t, feeds[one.Tensors[one.Inputs[0]].Name]), 0o666))
	q, codes := integers(t, two, more)
	answer = execute(t, generatedWith(t, two, cprogram.Options{Inputs: true, Outputs: true}, strict), q, codes)
	want[1] = raw(t, answer[0])
	in := codes[q.Tensors[q.Inputs[0]].Name]
	require.NoError(t, os.WriteFile(filepath.Join(dir, "two.in"), raw(t, in), 0o666))

	run := exec.Command(filepath.Join(dir, "both"))
	run.Dir = dir
	out, err = run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	e := q.Tensors[q.Inputs[0]].Encoding
	var zero int32
	var scale float32
	_, err = fmt.Sscanf(string(out), "%d %g", &zero, &scale)
	require.NoError(t, err)
	require.Equal(t, e.ZeroPoint, zero)
	require.Equal(t, e.Scale, scale)
	for i := range 4 {
		got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%d.out", i)))
		require.NoError(t, err)
		require.Equal(t, want[i%2], got, i)
	}
}

// Integers at the borders: what the program computes between them is the reference's, and nothing is float any more.
func TestIntegerBorders(t *testing.T) {
	compiler(t)
	for _, c := range []struct{ network, profile string }{{"mobilenet", "tflite2"}, {"mobilenet", "ort"}} {
		p, feeds := network(t, c.network, c.profile)
		q, codes := integers(t, p, feeds)
		e, err := program.New(p, program.Reference, 1)
		require.NoError(t, err)
		var want []*tensor.Tensor
		_, err = e.Run(context.Background(), feeds, func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
			if s.ID == p.Steps[len(p.Steps)-1].ID {
				want = []*tensor.Tensor{in[0].ToRowMajor()}
			}
			return nil, nil
		})
		require.NoError(t, err)
		o := cprogram.Options{Inputs: true, Outputs: true}
		require.Positive(t, same(t, q, want, execute(t, generatedWith(t, p, o, strict), q, codes)))
		if c.profile == "tflite2" {
			var text bytes.Buffer
			_, err := cprogram.Write(&text, p, o)
			require.NoError(t, err)
			code, _, _ := strings.Cut(text.String(), "#ifndef QWB_NO_MAIN")
			_, code, _ = strings.Cut(code, "#ifndef QWB_INTERFACE_ONLY")
			require.NotRegexp(t, `\b(float|double|fabs)\b`, code)
		}
	}
}

// What cannot be had as integers is refused, and so are prefixes that are no names.
func TestBorderErrors(t *testing.T) {
	p, _ := network(t, "mobilenet", "tflite2")
	write := func(p *lower.Program, o cprogram.Options) error {
		var text bytes.Buffer
		_, err := cprogram.Write(&text, p, o)
		require.Zero(t, text.Len())
		return err
	}
	for _, prefix := range []string{"two words", "2nd", "a-b", "\u00e4"} {
		require.EqualError(t, write(p, cprogram.Options{Prefix: prefix}), fmt.Sprintf("export c: the prefix %q is no name in C", prefix))
	}
	moves, _ := network(t, "moves", "tflite2")
	require.ErrorIs(t, write(moves, cprogram.Options{Context: graphtest.NewEnding(0)}), context.Canceled)
	tflite := " or a platform that writes integers, such as tflite_int8"
	for _, c := range []struct{ text, platform, profile, want string }{
		{lowertest.Networks["resnet"], "trt_int8", "trt", `output "h" has no integers, Mul "swish" computes it in float: use float32, ` +
			"qwb set swish domain=int where the platform has it on integers,"},
		{lowertest.Networks["mobilenet"], "onnxruntime", "tflite2",
			`output "z" has no integers, Softmax "soft" computes it in float: use float32, ` +
				"qwb set soft domain=int where the platform has it on integers,"},
		{"input x: f32[2,4]\nconst w: f32[4,3] = normal(1)\ny = Gemm(x, w) \"fc\"\noutput y\n", "onnxruntime", "tflite2",
			`output "y" has no integers, Gemm "fc" computes it in float: use float32`},
	} {
		g, set, _ := lowertest.Configured(t, c.text, c.platform)
		tg, err := target.Find(c.platform)
		require.NoError(t, err)
		q, err := lowered(g, set, tg, c.profile)
		require.NoError(t, err)
		require.EqualError(t, write(q, cprogram.Options{Outputs: true}), "export c: "+c.want+tflite)
	}
	p.Steps = append(p.Steps, lower.Step{ID: 0, Inputs: p.Inputs, Outputs: p.Steps[0].Outputs, Op: &lower.Island{}})
	require.ErrorContains(t, write(p, cprogram.Options{Inputs: true}), `input "x" has no one type of integers`)
}
