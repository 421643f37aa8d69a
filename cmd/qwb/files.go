package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// writeFile writes a file under a temporary name beside path and renames it when it is complete and on the disk: nothing is
// left behind if anything fails. It returns the SHA-256 of what was written.
func writeFile(path string, write func(io.Writer) error) (sum string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	h := sha256.New()
	if err = write(io.MultiWriter(f, h)); err != nil {
		return "", err
	}
	if err = f.Sync(); err != nil {
		return "", err
	}
	if err = f.Chmod(0o644); err != nil {
		return "", err
	}
	if err = f.Close(); err != nil {
		return "", err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeFiles writes several files into a folder, all or none: they are rendered into memory first.
func writeFiles(dir string, names []string, write func(name string, w io.Writer) error) error {
	rendered := make([]bytes.Buffer, len(names))
	for i, name := range names {
		if err := write(name, &rendered[i]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, name := range names {
		if _, err := writeFile(filepath.Join(dir, name), func(w io.Writer) error {
			_, err := rendered[i].WriteTo(w)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// baseName is the name of a file without folders and extension.
func baseName(path string) string {
	b := filepath.Base(path)
	return strings.TrimSuffix(b, filepath.Ext(b))
}

const planSuffix = ".plan.json"

// planPath is where the plan of a model goes unless -o says otherwise: into the current folder.
func planPath(model, out string) (string, error) {
	if out == "" {
		return baseName(model) + planSuffix, nil
	}
	if !strings.HasSuffix(out, planSuffix) {
		return "", usagef("-o %s: the name of a plan ends in %s", out, planSuffix)
	}
	return out, nil
}

// statsPath is where the statistics lie that belong to a plan.
func statsPath(plan string) string { return strings.TrimSuffix(plan, planSuffix) + ".stats" }

// findPlan returns the plan named by the arguments, or the only one in the current folder.
func findPlan(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	plans, err := filepath.Glob("*" + planSuffix)
	if err != nil {
		return "", err
	}
	switch len(plans) {
	case 1:
		return plans[0], nil
	case 0:
		return "", usagef("no plan: name one, or run qwb calibrate first (no *%s in the current folder)", planSuffix)
	}
	return "", usagef("%d plans in the current folder: name one of %s", len(plans), strings.Join(plans, ", "))
}
