// Package browsertest tests the pages of qwb in a real browser: Chromium without a window, driven over its debugging protocol. It is a
// module of its own, so that nothing else depends on the driver. Where there is no Chromium its tests are skipped.
//
// QWB_SCREENSHOTS names a folder for pictures of every view. QWB and QWB_SITE name the program and the page without a server where they are
// built already.
//
// Tests run side by side, each in a browser context of its own; what several need, such as a plan of MobileNetV1, is made once and copied.
package browsertest
