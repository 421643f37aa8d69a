// Command inputs makes npy and npz samples for networks that are not fed with plain pictures (see README.md).
//
//	inputs KIND -o DIR [flags] FILE...
//
// KIND is one of the list below; `inputs KIND -h` lists its flags. Every sample is one file in DIR; labels, where the files say
// them, go to DIR.tsv. The same files give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"qwb/calib/data/npy"
	"qwb/graph/tensor"
)

// kind is one sort of inputs. start declares its flags and returns what makes the samples of the files.
type kind struct {
	name, what string
	start      func(*flag.FlagSet) maker
}

// maker hands every sample of the files to the sink.
type maker func(files []string, out *sink) error

var kinds = []kind{
	{"vad", "frames of speech, recurrent state and sample rate (Silero VAD)", startVAD},
	{"mel", "windows of mel spectrogram (Google speech embedding)", startMel},
	{"wakeword", "spectrograms of the MLPerf Tiny streaming wake word", startWakeword},
	{"filetype", "first and last bytes of files (Magika)", startFiletype},
	{"ocr-page", "pictures of any size for a text detector (PP-OCR)", startPage},
	{"ocr-line", "lines of text of fixed height and any width for a recogniser (PP-OCR)", startLine},
	{"text", "token ids, mask and types of lines of text (BERT)", startText},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "inputs:", err)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	var names []string
	for _, k := range kinds {
		names = append(names, fmt.Sprintf("  %-9s %s", k.name, k.what))
		if len(args) == 0 || args[0] != k.name {
			continue
		}
		f := flag.NewFlagSet(k.name, flag.ContinueOnError)
		dir := f.String("o", "", "folder for the samples; must not exist or be empty")
		start := k.start(f)
		if err := f.Parse(args[1:]); err != nil {
			return err
		}
		if *dir == "" || f.NArg() == 0 {
			return fmt.Errorf("%s takes -o DIR, its flags, and then files", k.name)
		}
		files, err := expand(f.Args())
		if err != nil {
			return err
		}
		out, err := newSink(*dir)
		if err != nil {
			return err
		}
		if err := start(files, out); err != nil {
			return err
		}
		return out.close()
	}
	return fmt.Errorf("inputs KIND -o DIR [flags] FILE...\n%s", strings.Join(names, "\n"))
}

// expand replaces folders by the files in them, sorted.
func expand(args []string) ([]string, error) {
	var files []string
	for _, a := range args {
		err := filepath.WalkDir(a, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	sort.Strings(files)
	return files, nil
}

// sink writes samples and their labels.
type sink struct {
	dir    string
	n      int
	labels strings.Builder
}

func newSink(dir string) (*sink, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	there, err := os.ReadDir(dir)
	if err == nil && len(there) > 0 {
		err = fmt.Errorf("%s is not empty", dir)
	}
	return &sink{dir: dir}, err
}

// array writes a sample of one array, with its class, -1 if it has none.
func (s *sink) array(name string, t *tensor.Tensor, label int) error {
	return s.write(name+".npy", label, func(f *os.File) error { return npy.Write(f, t) })
}

// arrays writes a sample of several arrays, by the names of the network's inputs.
func (s *sink) arrays(name string, arrays map[string]*tensor.Tensor) error {
	return s.write(name+".npz", -1, func(f *os.File) error { return npy.WriteArchive(f, arrays) })
}

func (s *sink) write(name string, label int, write func(*os.File) error) error {
	name = fmt.Sprintf("%05d-%s", s.n, name)
	s.n++
	f, err := os.Create(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	if label >= 0 {
		fmt.Fprintf(&s.labels, "%s\t%d\n", name, label)
	}
	return errors.Join(write(f), f.Close())
}

// close writes the labels and says what was made.
func (s *sink) close() error {
	if s.n == 0 {
		return errors.New("the files give no sample")
	}
	fmt.Printf("%d samples in %s\n", s.n, s.dir)
	if s.labels.Len() == 0 {
		return nil
	}
	name := filepath.Clean(s.dir) + ".tsv"
	fmt.Printf("labels in %s\n", name)
	return os.WriteFile(name, []byte(s.labels.String()), 0o644)
}

// base is the name of a file without folder and extension.
func base(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}
