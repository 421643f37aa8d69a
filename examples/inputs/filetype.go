package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"qwb/graph/tensor"
)

// magika is what the network's configuration says about its input.
type magika struct {
	Beg     int      `json:"beg_size"`
	Mid     int      `json:"mid_size"`
	End     int      `json:"end_size"`
	Padding int32    `json:"padding_token"`
	Block   int      `json:"block_size"`
	Min     int      `json:"min_file_size_for_dl"`
	Labels  []string `json:"target_labels_space"`
}

// space is what Python's bytes.strip removes.
const space = " \t\n\r\v\f"

// startFiletype gives the first bytes of a file and the last, without white space around, padded at the far ends. Files that are
// smaller than the configuration's minimum are left out: Magika itself does not ask the network about them. The label of a file
// is the name of its folder.
func startFiletype(f *flag.FlagSet) maker {
	config := f.String("config", "", "the network's configuration, a JSON file")
	return func(files []string, out *sink) error {
		b, err := os.ReadFile(*config)
		if err != nil {
			return fmt.Errorf("-config: %w", err)
		}
		var m magika
		if err := json.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%s: %w", *config, err)
		}
		if m.Mid != 0 || m.Beg < 1 || m.End < 1 || m.Block < max(m.Beg, m.End) {
			return fmt.Errorf("%s: a layout of bytes that is not known here", *config)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			ids := m.ids(content)
			if ids == nil {
				continue
			}
			class := filepath.Base(filepath.Dir(file))
			t := tensor.New(tensor.Int32, 1, len(ids))
			copy(tensor.Of[int32](t), ids)
			if err := out.array(class+"-"+base(file), t, slices.Index(m.Labels, class)); err != nil {
				return err
			}
		}
		return nil
	}
}

// ids is the input for a file, nil for one that is too small.
func (m *magika) ids(content []byte) []int32 {
	head := bytes.TrimLeft(content[:min(m.Block, len(content))], space)
	tail := bytes.TrimRight(content[max(0, len(content)-m.Block):], space)
	head, tail = head[:min(m.Beg, len(head))], tail[max(0, len(tail)-m.End):]
	if len(content) < m.Min || len(head) < m.Min {
		return nil
	}
	ids := slices.Repeat([]int32{m.Padding}, m.Beg+m.End)
	for i, c := range head {
		ids[i] = int32(c)
	}
	for i, c := range tail {
		ids[len(ids)-len(tail)+i] = int32(c)
	}
	return ids
}
