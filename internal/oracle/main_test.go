package oracle_test

import (
	"testing"

	"interlock/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
