package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"qwb/graph/tensor"
)

// openPrinted reads blobs as the pretty_print of ncnn's documentation prints them: a line for each row,
// a line of dashes behind each channel.
func openPrinted(fsys fs.FS, dir, _ string) (*Recording, error) {
	return files(fsys, dir, printed, ".txt")
}

// printed reads one blob, of shape [channels, rows, columns].
func printed(b []byte) (*tensor.Tensor, error) {
	channels, rows, columns, row := 0, -1, -1, 0
	var text []string
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case strings.Trim(line, "-") == "":
			if rows >= 0 && row != rows {
				return nil, fmt.Errorf("line %d: %d rows in a channel, the first has %d", i+1, row, rows)
			}
			channels, rows, row = channels+1, row, 0
			continue
		}
		cells := strings.Fields(line)
		if columns >= 0 && len(cells) != columns {
			return nil, fmt.Errorf("line %d: %d numbers in a row, the first has %d", i+1, len(cells), columns)
		}
		columns, row = len(cells), row+1
		text = append(text, cells...)
	}
	if channels == 0 || row != 0 {
		return nil, errors.New("not what ncnn's pretty_print prints: a line of dashes ends every channel")
	}
	return numbers(text, []int{channels, rows, max(columns, 0)})
}
