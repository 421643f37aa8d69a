package cprogram

import (
	"fmt"
	"strings"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// file puts the parts together.
func (w *writer) file(title string, size Size) string {
	var b strings.Builder
	profile := w.p.Profile
	fmt.Fprintf(&b, "/* %s\n\n   An integer program written by qwb: target %s, arithmetic profile %s,\n", plain(title),
		w.p.Target, profile.Name)
	fmt.Fprintf(&b, "     %s\n   rounded %s.\n\n", plain(profile.Doc.Formula), plain(profile.Doc.Rounding))
	fmt.Fprintf(&b, "     cc -std=c99 -O2 -ffp-contract=off -o program THIS.c && ./program INPUT.npy... OUTPUT.npy...\n\n")
	fmt.Fprintf(&b, "   %d bytes of constants, %d bytes of arena for what is computed on the way. No heap but in main, no libm; "+
		"without main no\n", size.Constants, size.Arena)
	fmt.Fprintf(&b, "   header but those of a freestanding compiler. -D%s leaves main out, -D%s the arena and %s_run, and\n",
		w.macro("NO_MAIN"), w.macro("NO_ARENA"), w.prefix)
	fmt.Fprintf(&b, "   -D%s leaves the interface, for files that include this one. %s(n), if it is defined, stands behind\n   step n. */\n\n",
		w.macro("INTERFACE_ONLY"), w.macro("STEP"))
	fmt.Fprintf(&b, "#ifndef %[1]s\n#define %[1]s\n\n#include <stddef.h>\n#include <stdint.h>\n\n", w.macro("INTERFACE"))
	for _, m := range []struct {
		name string
		n    int
	}{{"ARENA_BYTES", size.Arena}, {"ARENA_ALIGNMENT", arenaAlignment}, {"INPUTS", len(w.p.Inputs)}, {"OUTPUTS", len(w.p.Outputs)}} {
		fmt.Fprintf(&b, "#define %s %d\n", w.macro(m.name), m.n)
	}
	for k, id := range w.p.Inputs {
		w.border(&b, fmt.Sprintf("INPUT_%d_", k), id)
	}
	for k, id := range w.p.Outputs {
		w.border(&b, fmt.Sprintf("OUTPUT_%d_", k), id)
	}
	b.WriteString("\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n")
	b.WriteString("/* One run. in and out have an array for every input and output, row-major, each aligned to its type, apart from each " +
		"other and\n")
	fmt.Fprintf(&b, "   from the arena. The arena has %s bytes at a multiple of %s. Nothing is kept between\n", w.macro("ARENA_BYTES"),
		w.macro("ARENA_ALIGNMENT"))
	fmt.Fprintf(&b, "   runs: several may run at once, each in an arena of its own. */\nvoid %s_run_in(void *arena, const void *const *in, "+
		"void *const *out);\n\n", w.prefix)
	fmt.Fprintf(&b, "#ifndef %s\n/* The same in a static arena: one run at a time. */\nvoid %s_run(const void *const *in, void *const "+
		"*out);\n#endif\n", w.macro("NO_ARENA"), w.prefix)
	fmt.Fprintf(&b, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n\n#ifndef %s\n", w.macro("INTERFACE_ONLY"))
	kernels := w.kernels.text.String()
	if strings.Contains(kernels, "float") {
		b.WriteString("\n#include <float.h>\n")
		b.WriteString("\n#if FLT_EVAL_METHOD != 0\n#error \"float operations must be rounded to float: on x86 use -msse2 " +
			"-mfpmath=sse\"\n#endif\n")
	}
	if w.infinity {
		b.WriteString("\n#ifdef __GNUC__\n#define INFINITY (__builtin_inff())\n#define NAN (__builtin_nanf(\"\"))\n#else\n#include " +
			"<math.h>\n#endif\n")
	}
	fmt.Fprintf(&b, "\n#ifndef %[1]s\n#define %[1]s(n) ((void)0)\n#endif\n", w.macro("STEP"))
	b.WriteString("\n/* Arithmetic and operators. */\n")
	b.WriteString(kernels)
	b.WriteString("\n/* Weights, biases, multipliers and tables. */\n")
	b.WriteString(w.tables.String())
	fmt.Fprintf(&b, "\nvoid %s_run_in(void *memory, const void *const *in, void *const *out) {\n    uint8_t *const arena = memory;\n",
		w.prefix)
	w.declare(&b)
	b.WriteString(w.body.String())
	fmt.Fprintf(&b, "}\n\n#ifndef %s\n\nvoid %s_run(const void *const *in, void *const *out) {\n", w.macro("NO_ARENA"), w.prefix)
	fmt.Fprintf(&b, "    static union {\n        uint8_t bytes[%d];\n        int64_t alignment;\n    } arena;\n",
		(max(size.Arena, 1)+arenaAlignment-1)/arenaAlignment*arenaAlignment)
	fmt.Fprintf(&b, "    %s_run_in(&arena, in, out);\n}\n\n#endif\n\n#ifndef %s\n\n", w.prefix, w.macro("NO_MAIN"))
	b.WriteString("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n")
	w.interfaces(&b)
	b.WriteString("\n" + strings.NewReplacer("QWB_", w.macro(""), "qwb_", w.prefix+"_").Replace(w.kernels.library["main"].text))
	b.WriteString("\n#endif\n\n#endif\n")
	return b.String()
}

// arenaAlignment is that of the widest type in the arena.
const arenaAlignment = 8

// macro is a macro's name.
func (w *writer) macro(name string) string { return strings.ToUpper(w.prefix) + "_" + name }

// border writes what callers have to know of an input or output.
func (w *writer) border(b *strings.Builder, name string, id lower.TensorID) {
	fmt.Fprintf(b, "#define %s %d /* %s */\n", w.macro(name+"BYTES"), w.bytes(id), w.typed(id))
	if e := w.p.Tensors[id].Encoding; e != nil {
		fmt.Fprintf(b, "#define %s %s\n#define %s %d\n", w.macro(name+"SCALE"), w.real(e.Scale), w.macro(name+"ZERO_POINT"), e.ZeroPoint)
	}
}

// declare writes the pointers to all arrays.
func (w *writer) declare(b *strings.Builder) {
	for k, id := range w.p.Inputs {
		v := w.values[id]
		fmt.Fprintf(b, "    const %s *const %s = in[%d]; /* %s */\n", cTypes[v.dtype.String()], v.name, k, w.typed(id))
	}
	for _, v := range w.arrays {
		if v.alias != nil {
			continue
		}
		t := cTypes[v.dtype.String()]
		where := fmt.Sprintf("(%s *)(void *)(arena + %d)", t, v.offset)
		if v.at != "" {
			where = v.at
		}
		fmt.Fprintf(b, "    %s *const %s = %s; /* %s, %s */\n", t, v.name, where, plain(v.what), tensor.TypeString(v.dtype, v.shape))
	}
	b.WriteString("    (void)in, (void)out, (void)arena;\n")
}

// interfaces writes what main has to know of inputs and outputs.
func (w *writer) interfaces(b *strings.Builder) {
	fmt.Fprintf(b, "struct %s_tensor {\n    const char *name, *descr, *shape;\n    size_t count, size;\n};\n\n", w.prefix)
	for _, list := range []struct {
		name string
		ids  []lower.TensorID
	}{{"inputs", w.p.Inputs}, {"outputs", w.p.Outputs}} {
		fmt.Fprintf(b, "static const struct %[1]s_tensor %[1]s_%[2]s[] = {\n", w.prefix, list.name)
		for _, id := range list.ids {
			t := &w.p.Tensors[id]
			fmt.Fprintf(b, "    {%s, \"'%s'\", \"%s\", %d, %d},\n", quoted(t.Name), descr(t.DType), pythonShape(w.shape(id)), w.count(id),
				t.DType.Bytes(1))
		}
		b.WriteString("    {0, 0, 0, 0, 0},\n};\n")
	}
}

func (w *writer) typed(id lower.TensorID) string {
	return plain(w.p.Tensors[id].Name + " " + tensor.TypeString(w.p.Tensors[id].DType, w.shape(id)))
}

func (w *writer) bytes(id lower.TensorID) int { return w.p.Tensors[id].DType.Bytes(w.count(id)) }

// descr is NumPy's name of a type.
func descr(d tensor.DType) string {
	switch d {
	case tensor.Bool:
		return "|b1"
	case tensor.Uint8:
		return "|u1"
	case tensor.Int8:
		return "|i1"
	case tensor.Uint16:
		return "<u2"
	case tensor.Int16:
		return "<i2"
	case tensor.Int32:
		return "<i4"
	case tensor.Int64:
		return "<i8"
	}
	return "<f4"
}

// pythonShape is a tuple without spaces.
func pythonShape(shape []int) string {
	s := "("
	for i, n := range shape {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprint(n)
	}
	if len(shape) == 1 {
		s += ","
	}
	return s + ")"
}

// quoted is a string constant.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~' || c == '?':
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
