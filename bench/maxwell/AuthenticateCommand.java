package com.github.shyiko.mysql.binlog.network.protocol.command;

import com.github.shyiko.mysql.binlog.io.ByteArrayOutputStream;
import java.io.IOException;

/**
 * Login for accounts without a password, by caching_sha2_password. It replaces the class in Maxwell, which supports only
 * mysql_native_password. MySQL 9.0 removed that plugin.
 */
public class AuthenticateCommand implements Command {
    private static final int LONG_FLAG = 1 << 2;
    private static final int PROTOCOL_41 = 1 << 9;
    private static final int SECURE_CONNECTION = 1 << 15;
    private static final int PLUGIN_AUTH = 1 << 19;

    private final String username;
    private int collation;

    public AuthenticateCommand(String schema, String username, String password, String salt) {
        this.username = username;
    }

    public void setClientCapabilities(int clientCapabilities) {
    }

    public void setCollation(int collation) {
        this.collation = collation;
    }

    @Override
    public byte[] toByteArray() throws IOException {
        ByteArrayOutputStream buffer = new ByteArrayOutputStream();
        buffer.writeInteger(LONG_FLAG | PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH, 4);
        buffer.writeInteger(0, 4);
        buffer.writeInteger(collation, 1);
        for (int index = 0; index < 23; index++) {
            buffer.write(0);
        }
        buffer.writeZeroTerminatedString(username);
        // No password.
        buffer.writeInteger(0, 1);
        buffer.writeZeroTerminatedString("caching_sha2_password");
        return buffer.toByteArray();
    }
}
