package export_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/export"
	"qwb/quantizer/target"
)

// A format whose doctor counts the bytes x; a file without any is unreadable.
func counted(ext string) export.Format {
	return export.Format{Name: "counted", Ext: ext, Rules: []export.Rule{{Name: "no-x", Doc: "there is no x", Fix: "take it away"}},
		Doctor: func(_ context.Context, in *export.DoctorInput) ([]export.Finding, error) {
			name := in.Name
			if name == "." {
				name = "a/b.txt"
			}
			b, err := fs.ReadFile(in.FS, name)
			if err != nil {
				return nil, err
			}
			if len(b) == 0 {
				return nil, errors.New("it is empty")
			}
			var list []export.Finding
			for i := range bytes.Count(b, []byte("x")) {
				list = append(list, export.Finding{Rule: "no-x", Node: fmt.Sprint("x", i), Text: "an x"})
			}
			return list, nil
		}}
}

// What is written is read back before it has its name, on disk and in memory, as a file and as a folder.
func TestConforms(t *testing.T) {
	for _, ext := range []string{".txt", ""} {
		for _, into := range []export.Stage{nil, &memory{}} {
			for text, want := range map[string]string{"abc": "", "": "what was written cannot be read: it is empty",
				"axbx":    `the file would break rules of counted for onnxruntime, nothing was written: no-x: node "x0": an x; no-x: node "x1": an x`,
				"xxxxxxx": "; and 2 more"} {
				f := counted(ext)
				out := f.NewOutput(filepath.Join(t.TempDir(), "b.txt"), into)
				name := out.Name()
				if ext == "" {
					name = "a/b.txt"
				}
				put(t, out, name, text)
				err := f.Conforms(context.Background(), &export.Input{Target: &target.ONNXRuntime}, out)
				if want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, want)
				}
				out.Discard()
			}
		}
	}
}

// A finding has the fix of its rule; a format without a doctor says so when it is asked.
func TestDiagnose(t *testing.T) {
	f := counted(".txt")
	out := f.NewOutput(filepath.Join(t.TempDir(), "b.txt"), &memory{})
	put(t, out, "b.txt", "x")
	found, err := f.Diagnose(context.Background(), &export.DoctorInput{FS: only("x"), Name: "any"})
	require.NoError(t, err)
	require.Equal(t, []export.Finding{{Rule: "no-x", Node: "x0", Text: "an x", Fix: "take it away"}}, found)
	f.Doctor = nil
	_, err = f.Diagnose(context.Background(), &export.DoctorInput{})
	require.EqualError(t, err, "format counted has no doctor")
	require.NoError(t, f.Conforms(context.Background(), &export.Input{}, out), "it is not read")
}

// only is a file system of files with one content.
type only string

func (o only) Open(name string) (fs.File, error) { return nil, fs.ErrNotExist }
func (o only) ReadFile(string) ([]byte, error)   { return []byte(o), nil }
