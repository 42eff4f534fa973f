import java.math.BigDecimal;
import java.sql.*;
import java.util.Properties;

/** Checks that pgjdbc works through the gateway. */
public class Clients {
    interface Check { void run() throws Exception; }

    static boolean failed;

    static void check(String what, Check c) {
        try {
            c.run();
            System.out.println("ok   pgjdbc: " + what);
        } catch (Throwable e) {
            failed = true;
            System.out.println("FAIL pgjdbc: " + what);
            e.printStackTrace(System.out);
        }
    }

    static void equal(String what, Object got, Object want) {
        if (!java.util.Objects.equals(got, want)) throw new AssertionError(what + ": got " + got + ", want " + want);
    }

    static Connection connect(String... more) throws SQLException {
        Properties p = new Properties();
        p.setProperty("user", "ana");
        p.setProperty("password", System.getenv("INTERLOCK_KEY_ANA"));
        p.setProperty("sslmode", "verify-full");
        p.setProperty("sslrootcert", System.getenv("PGSSLROOTCERT"));
        for (int i = 0; i < more.length; i += 2) p.setProperty(more[i], more[i + 1]);
        return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("INTERLOCK_PGHOST") + ":" + System.getenv("INTERLOCK_PGPORT") + "/"
            + System.getenv("INTERLOCK_SOURCE"), p);
    }

    static final String BIG = "select id, customer_id, ordered_at, status, amount from sales.orders";

    public static void main(String[] args) throws Exception {
        for (String mode : new String[] {"extended", "simple"}) {
            try (Connection conn = connect("preferQueryMode", mode)) {
                types(conn, mode);
                masked(conn, mode);
            }
        }
        try (Connection conn = connect("prepareThreshold", "3")) {
            repeated(conn);
            refused(conn);
            big(conn);
            cancels(conn);
            meta(conn);
        }
        System.exit(failed ? 1 : 0);
    }

    static void types(Connection conn, String mode) {
        check("reads typed values, " + mode, () -> {
            try (Statement st = conn.createStatement(); ResultSet r = st.executeQuery(
                "select 12345678901234567890.5::numeric, timestamptz '2026-01-02 03:04:05.678+00', '\\x00ff27'::bytea, '{\"a\": [1, 2]}'::json, "
                + "array[1, null, 3]::int[], null::text, 9007199254740993::int8, 'Zoë'::text, true")) {
                r.next();
                equal("numeric", r.getBigDecimal(1), new BigDecimal("12345678901234567890.5"));
                equal("timestamptz", r.getTimestamp(2).toInstant().toString(), "2026-01-02T03:04:05.678Z");
                equal("bytea", r.getBytes(3).length, 3);
                equal("json", r.getString(4), "{\"a\": [1, 2]}");
                equal("array", ((Object[]) r.getArray(5).getArray()).length, 3);
                equal("NULL", r.getString(6), null);
                equal("int8", r.getLong(7), 9007199254740993L);
                equal("text", r.getString(8), "Zoë");
            }
        });
    }

    static void masked(Connection conn, String mode) {
        check("reads masked columns of every kind of type, " + mode, () -> {
            conn.unwrap(org.postgresql.PGConnection.class).setPrepareThreshold(-1); // binary from the first time on
            try (PreparedStatement st = conn.prepareStatement("select t, dom, a, n, i, f, ia, d, tz, j, u, b, yes, ip from masked.wide"); ResultSet r = st.executeQuery()) {
                r.next();
                equal("email", r.getString(1), "a***@***");
                equal("domain", r.getString(2), "ad***t");
                equal("text[]", java.util.Arrays.toString((Object[]) r.getArray(3).getArray()), "[hidden, null]");
                equal("numeric", r.getBigDecimal(4), new BigDecimal("12300.00"));
                equal("int8", r.getLong(5), 1200L);
                equal("float8", r.getDouble(6), 1200.0);
                equal("int[]", java.util.Arrays.toString((Object[]) r.getArray(7).getArray()), "[100, null, -100]");
                equal("date", r.getDate(8).toString(), "2026-08-01");
                equal("timestamptz", r.getTimestamp(9).toInstant().toString(), "2026-08-01T00:00:00Z");
                equal("jsonb", r.getString(10), "{\"n\":[1, 2],\"token\":null}");
                equal("uuid", r.getObject(11).toString(), "00000000-0000-0000-0000-000000000000");
                equal("bytea", java.util.Arrays.toString(r.getBytes(12)), "[0]");
                equal("bool", r.getBoolean(13), true);
                equal("inet", r.getString(14), null);
            }
        });
    }

    static void repeated(Connection conn) {
        check("runs a prepared statement a hundred times", () -> {
            try (PreparedStatement st = conn.prepareStatement("select name from crm.customers where id = ?")) {
                for (int i = 0; i < 100; i++) {
                    st.setInt(1, 7);
                    try (ResultSet r = st.executeQuery()) { equal("a row", r.next(), true); }
                }
            }
        });
    }

    static void refused(Connection conn) {
        check("sees a refusal in a transaction with its SQLSTATE, DETAIL and HINT, and goes on after ROLLBACK", () -> {
            conn.setAutoCommit(false);
            try (Statement st = conn.createStatement()) {
                st.executeQuery("select name from crm.customers where id = 1").close();
                try {
                    st.executeQuery("select ssn from crm.customers");
                    throw new AssertionError("not refused");
                } catch (SQLException e) {
                    equal("SQLSTATE", e.getSQLState(), "42501");
                    equal("DETAIL and HINT", e.getMessage().contains("Detail:") && e.getMessage().contains("Hint:"), true);
                }
                conn.rollback();
                try (ResultSet r = st.executeQuery("select 1")) { equal("after", r.next(), true); }
            }
            conn.rollback();
            conn.setAutoCommit(true);
        });
    }

    static void big(Connection conn) {
        check("reads a big result, at once and by fetch size", () -> {
            for (int size : new int[] {0, 5000}) {
                conn.setAutoCommit(false);
                try (Statement st = conn.createStatement()) {
                    st.setFetchSize(size);
                    int n = 0;
                    try (ResultSet r = st.executeQuery(BIG)) { while (r.next()) n++; }
                    equal("rows", n, 120000);
                }
                conn.commit();
                conn.setAutoCommit(true);
            }
        });
    }

    static void cancels(Connection conn) {
        check("cancels by a timeout", () -> {
            try (Statement st = conn.createStatement()) {
                st.setQueryTimeout(1);
                st.executeQuery("select count(*) from sales.orders a, sales.orders b, sales.orders c");
                throw new AssertionError("not cancelled");
            } catch (SQLException e) {
                equal("SQLSTATE", e.getSQLState(), "57014");
            }
        });
    }

    static void meta(Connection conn) {
        check("lists tables and columns", () -> {
            DatabaseMetaData m = conn.getMetaData();
            boolean customers = false, salaries = false;
            try (ResultSet r = m.getTables(null, null, "%", new String[] {"TABLE", "VIEW", "PARTITIONED TABLE"})) {
                while (r.next()) {
                    customers |= r.getString("TABLE_NAME").equals("customers");
                    salaries |= r.getString("TABLE_NAME").equals("salaries");
                }
            }
            equal("customers, salaries", customers + " " + salaries, "true false");
            StringBuilder names = new StringBuilder();
            try (ResultSet r = m.getColumns(null, "crm", "customers", "%")) { while (r.next()) names.append(r.getString("COLUMN_NAME")).append(' '); }
            equal("ssn among the columns", names.indexOf("ssn") >= 0, false);
            equal("name among the columns", names.indexOf("name") >= 0, true);
            m.getPrimaryKeys(null, "crm", "customers").close();
            m.getIndexInfo(null, "crm", "customers", false, false).close();
            m.getTypeInfo().close();
            m.getProcedures(null, null, "%").close();
            m.getImportedKeys(null, "sales", "orders").close();
        });
    }
}
