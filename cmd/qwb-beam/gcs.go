//go:build gcs

package main

import _ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/gcs"
