# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC1090,SC2034,SC2064,SC2093,SC2218,SC2317
# kernel.sh - bash as a session: each piece of code runs in this very shell, which lives on
#
# Speaks the plain form of the kernel protocol on descriptor 3; started as
# bash --noprofile --norc /proc/self/fd/4, where 4 is this text. Needs no program but bash.
#
# Code is sourced at the top level, so that what it declares is global. Whatever would end a script
# ends the code and not the session: `exit`, `set -e`, `set -u`, ${x:?} and an interrupt all come to
# the EXIT trap, where the shell replaces itself by a new one of the same pid that is handed every
# variable, function, option, alias and trap. Background jobs go on, but `jobs` no longer knows them.
# `exec PROGRAM` is the one that does end the session.
#
# The traps DEBUG, ERR and RETURN of a piece of code end with it: they would see this text run. Its
# EXIT trap runs when it exits.

builtin trap '' INT # at once: an interrupt is for code that runs, and none does yet

# --- saying ---------------------------------------------------------------------------------------

# say TYPE BODY [WORD...]; a length counts bytes.
__cove_say() {
    [[ -z $2 ]] || local LC_ALL=C
    builtin printf '%s %d %d%s\n%s' "$1" "${#2}" "$__cove_generation" "${3+ ${*:3}}" "$2" >&10
}

# json TEXT -> __cove_reply. What is no UTF-8 loses its bytes above 127: JSON cannot hold them.
__cove_json() {
    local LC_ALL=C text=$1 code hex
    local utf8=$'^([\x01-\x7f]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})*$'
    [[ $text != *[$'\x80'-$'\xff']* || $text =~ $utf8 ]] || text=${text//[$'\x80'-$'\xff']/?}
    text=${text//\\/\\\\}
    text=${text//\"/\\\"}
    text=${text//$'\n'/\\n}
    text=${text//$'\t'/\\t}
    if [[ $text == *[$'\x01'-$'\x1f']* ]]; then
        for code in {1..31}; do
            builtin printf -v hex '\\x%02x' "$code"
            builtin printf -v hex '%b' "$hex"
            builtin printf -v code '\\u%04x' "$code"
            text=${text//"$hex"/"$code"}
        done
    fi
    __cove_reply="\"$text\""
}

__cove_error() {
    local name
    __cove_json "$1" && name=$__cove_reply
    __cove_json "$2"
    __cove_say ERROR "{\"name\": $name, \"value\": $__cove_reply, \"traceback\": $__cove_reply}"
}

# --- what the code asks for ------------------------------------------------------------------------

# The shell's own EXIT trap is how a session survives, so the code's is kept beside it.
trap() {
    local action=${1-} signal
    if ((BASH_SUBSHELL > 0 || $# < 2)) || [[ $action == -?* ]]; then
        builtin trap "$@"
        return
    fi
    for signal in "${@:2}"; do
        case ${signal^^} in
        EXIT | SIGEXIT | 0) [[ $action == - ]] && __cove_exit_trap= || __cove_exit_trap=$action ;;
        *) builtin trap -- "$action" "$signal" ;;
        esac
    done
}

# For one execution: remembers what a variable was. Locals have names that no variable of the code
# has, here and wherever one of those is looked at.
__cove_set_env() {
    local __cove_name=${1%%=*}
    [[ $__cove_name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || return
    if [[ -v $__cove_name ]]; then
        __cove_env[$__cove_name]="${!__cove_name}"
        [[ ${!__cove_name@a} == *x* ]] || __cove_env_private[$__cove_name]=1
    else
        __cove_env_new[$__cove_name]=1
    fi
    builtin export "${1?}"
}

__cove_restore_env() {
    local __cove_name
    for __cove_name in "${!__cove_env[@]}"; do
        builtin export "$__cove_name=${__cove_env[$__cove_name]}"
        [[ -v __cove_env_private[$__cove_name] ]] && builtin export -n "${__cove_name?}"
    done
    ((${#__cove_env_new[@]})) && builtin unset -v "${!__cove_env_new[@]}"
    __cove_env=() __cove_env_private=() __cove_env_new=()
}

# For one execution, too: goes to where it is to run, and back.
__cove_enter() {
    [[ $__cove_cwd ]] || return 0
    __cove_place=${PWD:-/workspace} __cove_old_place=${OLDPWD-}
    builtin cd -- "$__cove_cwd" 2>/dev/null && return
    __cove_place=
    __cove_error FileNotFoundError "cwd: there is no folder '$__cove_cwd' that can be entered"
    return 1
}

__cove_go_back() {
    if [[ $__cove_place ]]; then
        builtin cd -- "$__cove_place" || builtin cd -- /workspace
        [[ $__cove_old_place ]] && OLDPWD=$__cove_old_place || builtin unset -v OLDPWD
    fi 2>/dev/null
    __cove_args=() __cove_cwd='' __cove_place=''
}

# take_options FLAGS: switches off what would trip the kernel's own lines; the code finds it again.
__cove_take_options() {
    __cove_options=${1//[^euxvTEf]/}
    builtin set +euxvTEf
}

# --- the end of a script that is not the end of a session ------------------------------------------

__cove_state() {
    builtin declare -p
    builtin declare -f
    builtin shopt -p
    builtin set +o
    builtin alias -p
    builtin trap -p
}

# reborn STATUS FLAGS: the EXIT trap.
__cove_reborn() {
    builtin trap '' INT
    [[ $__cove_is_running ]] || builtin exit # not the code's end but the channel's
    if [[ $__cove_exit_trap ]]; then
        (builtin eval "$__cove_exit_trap") # a further exit in there is only the subshell's
        __cove_exit_trap=
    fi
    __cove_take_options "$2"
    __cove_restore_env
    __cove_go_back
    builtin exec {__cove_state_fd}< <(__cove_state 2>/dev/null </dev/null)
    builtin trap : INT # what is ignored at its start a shell can never trap
    # By way of 0: a copy of 10 would close itself like 10 does.
    builtin exec "$BASH" --noprofile --norc /proc/self/fd/4 "$__cove_state_fd" "$1" \
        <&10 3<&0 <&11 4<&0 </dev/null >/dev/null 2>&1 99<&-
}

# --- questions ------------------------------------------------------------------------------------

# describe NAME -> __cove_reply, one row of VARIABLES.
__cove_describe() {
    local -n __cove_ref=$1
    local __cove_text __cove_key __cove_size=null __cove_shape=null __cove_type=string
    case ${__cove_ref@a} in
    *[aA]*)
        [[ ${__cove_ref@a} == *A* ]] && __cove_type=map || __cove_type=array
        __cove_shape="[${#__cove_ref[@]}]"
        __cove_text=
        for __cove_key in "${!__cove_ref[@]}"; do
            ((${#__cove_text} < 200)) || break
            __cove_text+="${__cove_text:+ }[$__cove_key]=${__cove_ref[$__cove_key]:0:200}"
        done
        __cove_text="($__cove_text)"
        ;;
    *)
        [[ ${__cove_ref@a} == *i* ]] && __cove_type=integer
        __cove_text=${__cove_ref:0:201}
        ;;
    esac
    ((${#__cove_text} <= 200)) || __cove_text="${__cove_text:0:197}..."
    if [[ $__cove_type != [am]* ]]; then
        local LC_ALL=C # bytes
        __cove_size=${#__cove_ref}
    fi
    __cove_json "$__cove_text"
    __cove_reply="{\"name\": \"$1\", \"type\": \"$__cove_type\", \"size\": $__cove_size, \"shape\": $__cove_shape, \
\"preview\": $__cove_reply}"
}

# variables NAME...: of all variables; a function can be told from them by its brackets.
__cove_variables() {
    local __cove_name __cove_rows='' __cove_truncated=false __cove_count=0
    for __cove_name; do
        [[ $__cove_name == __cove_* || -v __cove_given[$__cove_name] ]] && continue
        if ((__cove_count++ == 1000 || ${#__cove_rows} > 200000)); then
            __cove_truncated=true
            break
        fi
        if [[ $__cove_name == *'()' ]]; then
            __cove_json "${__cove_name%'()'}"
            __cove_reply="{\"name\": $__cove_reply, \"type\": \"function\", \"size\": null, \"shape\": null, \"preview\": \"\"}"
        else
            __cove_describe "$__cove_name"
        fi
        __cove_rows+="${__cove_rows:+, }$__cove_reply"
    done
    __cove_say REPLY "{\"variables\": [$__cove_rows], \"truncated\": $__cove_truncated}"
}

# json of the variable NAME -> __cove_reply
__cove_value_json() {
    local -n __cove_ref=$1
    local __cove_key __cove_text=
    case ${__cove_ref@a} in
    *[aA]*)
        for __cove_key in "${!__cove_ref[@]}"; do
            __cove_text+=${__cove_text:+, }
            if [[ ${__cove_ref@a} == *A* ]]; then
                __cove_json "$__cove_key"
                __cove_text+="$__cove_reply: "
            fi
            __cove_json "${__cove_ref[$__cove_key]}"
            __cove_text+=$__cove_reply
        done
        [[ ${__cove_ref@a} == *A* ]] && __cove_reply="{$__cove_text}" || __cove_reply="[$__cove_text]"
        ;;
    *i*) __cove_reply=${__cove_ref:-0} ;;
    *) __cove_json "$__cove_ref" ;;
    esac
}

# variable NAME json|text
__cove_variable() {
    if [[ $1 =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] && builtin declare -p "$1" &>/dev/null; then
        local -n __cove_seen=$1
        if [[ $2 == json ]]; then
            __cove_value_json "$1"
            __cove_say DATA "$__cove_reply" 2 application/json
        elif [[ ${__cove_seen@a} == *[aA]* ]]; then
            __cove_say DATA "${__cove_seen[*]@A}" 2 text/plain
        else
            __cove_say DATA "$__cove_seen" 2 text/plain
        fi
    elif [[ $2 == text ]] && builtin declare -F -- "$1" >/dev/null; then
        __cove_say DATA "$(builtin declare -f -- "$1")" 2 text/plain
    else
        __cove_error NameError "$1: not set"
    fi
}

__cove_complete() {
    local cursor=$1 before word kind=-f match out='' count=0 prefix=''
    local -A seen=()
    before=${2:0:cursor}
    word=${before##*[[:space:]\;|&<>()=\"\'\`]}
    before=${before:0:${#before}-${#word}}
    if [[ $word =~ ^(.*\$\{?)([A-Za-z0-9_]*)$ ]]; then
        kind=-v prefix=${BASH_REMATCH[1]} word=${BASH_REMATCH[2]}
    elif [[ $before =~ (^|[\;\&\|\(\`]|(^|[[:space:]])(then|do|else|if|while|until|!))[[:space:]]*$ && $word != */* ]]; then
        kind=-c
    fi
    while builtin read -r match; do
        [[ $match && $match != __cove_* && ! -v seen[$match] ]] || continue
        seen[$match]=1
        [[ $kind == -f && -d $match ]] && match+=/
        __cove_json "$prefix$match"
        out+="${out:+, }$__cove_reply"
        ((++count < 200)) || break
    done < <(builtin compgen $kind -- "$word")
    __cove_say REPLY "{\"matches\": [$out], \"start\": ${#before}, \"end\": $cursor}"
}

__cove_is_whole() {
    local errors status=complete
    errors=$(LC_ALL=C "$BASH" --norc -n 2>&1 <<<"$1")
    case $errors in
    *"unexpected end of file"* | *"unexpected EOF"* | *"delimited by end-of-file"*) status=incomplete ;;
    *"syntax error"*) status=invalid ;;
    esac
    [[ $1 == *\\ && $1 != *\\\\ ]] && status=incomplete
    __cove_say REPLY "{\"status\": \"$status\", \"indent\": \"\"}"
}

# --- the loop -------------------------------------------------------------------------------------

if [[ ${1-} ]]; then # the rest of the shell that this one replaces; what is read-only is as it was
    builtin source "/dev/fd/$1" 2>/dev/null
else
    declare -A __cove_given=(['trap()']=1 [_]=1)
    declare -A __cove_env=() __cove_env_private=() __cove_env_new=()
    __cove_generation=0 __cove_options='' __cove_exit_trap='' __cove_args=() __cove_cwd='' __cove_place=''
    while builtin read -r __cove_name; do
        __cove_given[$__cove_name]=1
    done < <(builtin compgen -v; builtin printf '%s\n' BASH_COMPAT BASH_REMATCH COLUMNS FUNCNAME LINES OLDPWD)
    builtin shopt -s execfail
fi
__cove_is_running=''
builtin trap - DEBUG ERR RETURN # not in a function: there these three are put back at its end
builtin trap '__cove_reborn "$?" "$-"' EXIT

# The redirection moves the channel to 10 and this text to 11, the first free ones, where bash keeps
# what it will put back: no program that the code starts inherits them.
builtin exec 10<&- 11<&-
{
    if [[ ${1-} ]]; then
        builtin exec {__cove_state_fd}<&-
        __cove_say DONE '' "$2"
        builtin set --
    else
        __cove_say READY "{\"protocol\": 1, \"language\": \"bash\", \"version\": \"${BASH_VERSION%%(*}\"}"
    fi
    while IFS=' ' builtin read -r -u 10 __cove_type __cove_length __cove_generation __cove_in __cove_out __cove_err; do
        __cove_body=
        ((__cove_length == 0)) || LC_ALL=C IFS= builtin read -r -d '' -N "$__cove_length" -u 10 __cove_body
        case $__cove_type in
        SET)
            case $__cove_in in
            env) __cove_set_env "$__cove_body" ;;
            arg) __cove_args+=("$__cove_body") ;;
            cwd) __cove_cwd=$__cove_body ;;
            esac
            ;;
        EXECUTE)
            __cove_status=1
            # Asked beforehand: where they cannot be opened nobody would see bash complain.
            if [[ ! -r $__cove_in || ! -w $__cove_out || ! -w $__cove_err ]]; then
                __cove_error OSError 'the streams of this execution cannot be opened'
            elif __cove_enter; then
                __cove_is_running=1
                builtin trap 'builtin exit 130' INT
                builtin set "-${__cove_options:--}"
                builtin source /dev/fd/99 "${__cove_args[@]}" 99<<<"$__cove_body" <"$__cove_in" >>"$__cove_out" 2>>"$__cove_err"
                __cove_status=$? __cove_flags=$-
                builtin trap '' INT
                __cove_is_running=''
                __cove_take_options "$__cove_flags"
                builtin trap - DEBUG ERR RETURN
            fi
            __cove_restore_env
            __cove_go_back
            __cove_say DONE '' "$__cove_status"
            continue
            ;;
        VARIABLES)
            builtin mapfile -t __cove_names < <(builtin compgen -v && builtin compgen -A function -S '()')
            __cove_variables "${__cove_names[@]}"
            ;;
        VARIABLE) __cove_variable "$__cove_body" "$__cove_in" ;;
        COMPLETE) __cove_complete "$__cove_in" "$__cove_body" ;;
        IS_WHOLE) __cove_is_whole "$__cove_body" ;;
        esac
        [[ $__cove_type == SET ]] || __cove_say DONE '' 0
    done
    builtin exit # code that said `break` comes here too, and goes on from the trap
} 3<&- 4<&-
