// Package browsertest tests the pages of qwb in a real browser: Chromium without a window, driven over its debugging protocol. It is a
// module of its own, so that nothing else depends on the driver. Where there is no Chromium its tests are skipped.
//
// QWB_SCREENSHOTS names a folder for pictures of every view.
package browsertest
