# gpuctl(1): completion for bash. Verbs and options come from gpuctl itself.
# shellcheck shell=bash

_gpuctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb='' i
	local gpuctl=${COMP_WORDS[0]}

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--coordinator | --timeout) ((i++)) ;;
		-*) ;;
		*)
			verb=${COMP_WORDS[i]}
			break
			;;
		esac
	done
	if [[ $verb == run ]]; then # what follows its options is a command
		for ((; i < COMP_CWORD; i++)); do
			[[ ${COMP_WORDS[i]} == -- ]] || continue
			if declare -F _command_offset >/dev/null; then
				_command_offset $((i + 1))
			else
				mapfile -t COMPREPLY < <(compgen -c -- "$cur")
			fi
			return
		done
	fi
	case $prev in
	--type | --raw)
		mapfile -t COMPREPLY < <(compgen -W 'i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64' -- "$cur")
		return
		;;
	--on-failure)
		mapfile -t COMPREPLY < <(compgen -W 'abort shrink respawn spare' -- "$cur")
		return
		;;
	--op)
		mapfile -t COMPREPLY < <(compgen -W 'sum prod min max avg' -- "$cur")
		return
		;;
	--algo)
		mapfile -t COMPREPLY < <(compgen -W "$("$gpuctl" plan --list 2>/dev/null |
			awk '{ print $2 }' | sort -u)" -- "$cur")
		return
		;;
	esac
	if [[ -z $verb && $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W '--coordinator --timeout -h -V' -- "$cur")
	elif [[ -z $verb || $verb == help ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$gpuctl" completion 2>/dev/null)" -- "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$gpuctl" completion "$verb" 2>/dev/null)" -- "$cur")
	elif [[ $verb == plan || $verb == bench ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$gpuctl" plan --list 2>/dev/null |
			awk '{ print $1 }' | sort -u)" -- "$cur")
	elif [[ $verb == memcpy ]]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -F _gpuctl gpuctl
