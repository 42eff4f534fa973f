import java.sql.*;
import java.util.*;

/** Prints all that pgjdbc's DatabaseMetaData tells of a database: Inspect URL USER PASSWORD. */
public class Inspect {
    interface Ask { ResultSet of(DatabaseMetaData m) throws SQLException; }

    static boolean failed;

    static void print(String what, DatabaseMetaData m, Ask ask) {
        StringBuilder out = new StringBuilder("== " + what + "\n");
        try (ResultSet r = ask.of(m)) {
            int n = r.getMetaData().getColumnCount();
            for (int i = 1; i <= n; i++) out.append(r.getMetaData().getColumnLabel(i)).append('|');
            List<String> rows = new ArrayList<>();
            while (r.next()) {
                StringBuilder row = new StringBuilder();
                for (int i = 1; i <= n; i++) row.append(r.getString(i)).append('|');
                rows.add(row.toString());
            }
            Collections.sort(rows);
            for (String row : rows) out.append('\n').append(row);
            System.out.println(out);
        } catch (SQLException e) {
            failed = true;
            System.out.println("FAIL " + what + ": " + e.getMessage());
        }
    }

    public static void main(String[] args) throws Exception {
        try (Connection conn = DriverManager.getConnection(args[0], args[1], args[2])) {
            DatabaseMetaData m = conn.getMetaData();
            print("schemas", m, DatabaseMetaData::getSchemas);
            print("catalogs", m, DatabaseMetaData::getCatalogs);
            print("table types", m, DatabaseMetaData::getTableTypes);
            print("type info", m, DatabaseMetaData::getTypeInfo);
            print("tables", m, x -> x.getTables(null, null, "%", null));
            print("user-defined types", m, x -> x.getUDTs(null, null, "%", null));
            print("client info", m, DatabaseMetaData::getClientInfoProperties);
            for (String of : new String[] {"%", "a%"}) {
                print("columns of " + of, m, x -> x.getColumns(null, null, of, "%"));
                print("procedures of " + of, m, x -> x.getProcedures(null, null, of));
                print("functions of " + of, m, x -> x.getFunctions(null, null, of));
                print("procedure columns of " + of, m, x -> x.getProcedureColumns(null, null, of, "%"));
                print("function columns of " + of, m, x -> x.getFunctionColumns(null, null, of, "%"));
                print("privileges of " + of, m, x -> x.getTablePrivileges(null, null, of));
            }
            List<String[]> tables = new ArrayList<>();
            try (ResultSet r = m.getTables(null, null, "%", new String[] {"TABLE", "VIEW", "PARTITIONED TABLE"})) {
                while (r.next()) tables.add(new String[] {r.getString("TABLE_SCHEM"), r.getString("TABLE_NAME")});
            }
            for (String[] t : tables) {
                String name = t[0] + "." + t[1];
                print("primary keys of " + name, m, x -> x.getPrimaryKeys(null, t[0], t[1]));
                print("imported keys of " + name, m, x -> x.getImportedKeys(null, t[0], t[1]));
                print("exported keys of " + name, m, x -> x.getExportedKeys(null, t[0], t[1]));
                print("indexes of " + name, m, x -> x.getIndexInfo(null, t[0], t[1], false, true));
                print("best row of " + name, m, x -> x.getBestRowIdentifier(null, t[0], t[1], DatabaseMetaData.bestRowSession, true));
                print("version columns of " + name, m, x -> x.getVersionColumns(null, t[0], t[1]));
                print("column privileges of " + name, m, x -> x.getColumnPrivileges(null, t[0], t[1], "%"));
            }
            print("cross reference", m, x -> x.getCrossReference(null, null, "customers", null, null, "orders"));
            System.out.println("== product " + m.getDatabaseProductName() + " " + m.getDatabaseProductVersion() + " " + m.getMaxColumnNameLength()
                + " " + m.getDefaultTransactionIsolation());
        }
        System.exit(failed ? 1 : 0);
    }
}
